include(${CMAKE_CURRENT_LIST_DIR}/DllmPluginSdkTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/DllmAddPlugin.cmake)
