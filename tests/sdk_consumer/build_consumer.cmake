# cmake -DBUILD=.. -DSOURCE=.. -DWORK=.. -DGENERATOR=.. -DC_COMPILER=.. -DCXX_COMPILER=..
#       -P build_consumer.cmake
# Installs this build into a fresh prefix, then configures and builds the outside project against it.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV} failed (${status}):\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
file(REAL_PATH ${WORK} WORK)  # dllm shows its plugins' paths with links resolved
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)

# What was installed runs from where it lies and finds its own plugins.
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env --unset=DLLM_PLUGIN_PATH HOME=/ ${WORK}/prefix/bin/dllm plugins
  RESULT_VARIABLE status OUTPUT_VARIABLE listed ERROR_VARIABLE listed)
string(FIND "${listed}" "from ${WORK}/prefix/" found)
if(NOT status EQUAL 0 OR found EQUAL -1 OR listed MATCHES "refused")
  message(FATAL_ERROR "the installed dllm does not find its plugins (${status}):\n${listed}")
endif()

set(warnings "-Wall -Wextra -Wpedantic -Werror")
function(build_outside source build)
  run(${CMAKE_COMMAND} -S ${source} -B ${build} -G ${GENERATOR}
      -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_BUILD_TYPE=Release
      -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${CXX_COMPILER}
      "-DCMAKE_C_FLAGS=${warnings}" "-DCMAKE_CXX_FLAGS=${warnings}")
  run(${CMAKE_COMMAND} --build ${build})
endfunction()
build_outside(${SOURCE}/project ${WORK}/build)
# The SDK's examples, as they were installed.
build_outside(${WORK}/prefix/share/dllm/examples ${WORK}/examples)

# A package of ABI 1 must not answer for another major.
file(WRITE ${WORK}/other_major.cmake
  "find_package(DllmPluginSdk 2 CONFIG QUIET)\nif(DllmPluginSdk_FOUND)\n  message(FATAL_ERROR taken)\nendif()\nif(NOT DllmPluginSdk_CONSIDERED_VERSIONS MATCHES \"^1\\\\.\")\n  message(FATAL_ERROR \"not even looked at\")\nendif()\n")
run(${CMAKE_COMMAND} -DCMAKE_PREFIX_PATH=${WORK}/prefix -P ${WORK}/other_major.cmake)
