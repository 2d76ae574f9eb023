# find_package(Dllm CONFIG REQUIRED): the target dllm::core, for backends and models built outside
# dllm's tree. They must be built with the same compiler and C++ library: dllm compares build tags.
include(CMakeFindDependencyMacro)
find_dependency(DllmPluginSdk 1 CONFIG HINTS ${CMAKE_CURRENT_LIST_DIR}/../DllmPluginSdk)
include(${CMAKE_CURRENT_LIST_DIR}/DllmTargets.cmake)
