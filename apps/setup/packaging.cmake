# Debian packages, one an install component: `cd BUILD && cpack -G DEB`.
#   dllm             runtime: the program, libdllm.so, the plugins
#   dllm-plugin-sdk  sdk: headers, CMake package, examples and template for samplers; any machine
#   libdllm-dev      dev: core's headers and CMake package, for backends and models
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dllm)
set(CPACK_PACKAGE_CONTACT "The dllm authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime sdk dev)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME dllm)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Runs masked diffusion language models from GGUF files.")
# What the programs link is asked of dpkg; it knows libdllm.so from the build, not from a package.
find_program(DLLM_SHLIBDEPS dpkg-shlibdeps)
if(DLLM_SHLIBDEPS)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
endif()

set(CPACK_DEBIAN_SDK_PACKAGE_NAME dllm-plugin-sdk)
set(CPACK_DEBIAN_SDK_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_SDK_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_SDK_PACKAGE_SUGGESTS "dllm, cmake, ninja-build, g++")
set(CPACK_COMPONENT_SDK_DESCRIPTION "Headers, CMake package, examples and template to write samplers for dllm.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libdllm-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "dllm (= ${PROJECT_VERSION}), dllm-plugin-sdk (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers and CMake package to write backends and models for dllm.")
include(CPack)
