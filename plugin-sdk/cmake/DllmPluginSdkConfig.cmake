# find_package(DllmPluginSdk 1 CONFIG REQUIRED): the target dllm::plugin_sdk (headers only) and the
# function dllm_add_plugin. The package version is the plugin ABI's version.
include(${CMAKE_CURRENT_LIST_DIR}/DllmPluginSdkTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/DllmAddPlugin.cmake)
