# dllm_add_plugin(NAME <target> KIND <sampler|backend|model> SOURCES <files>... [LIBRARIES <targets>...]
#                 [OUTPUT_DIRECTORY <folder>] [NO_INSTALL])
#
# Makes the shared object <target>.so as dllm loads it: no "lib" prefix, hidden symbols, a version
# script that exports dllm_plugin_entry alone (hidden visibility still leaks inline std symbols), and
# no undefined symbols. Samplers link dllm::plugin_sdk only; backends and models link dllm::core,
# which find_package(Dllm) provides outside dllm's own tree.
#
# Inside dllm's tree plugins go to and are installed in lib/dllm/plugins; OUTPUT_DIRECTORY and
# NO_INSTALL are for those that must not (plugins that tests break on purpose). Outside, where the
# file goes is the project's choice: install(TARGETS ...), or copy it to ~/.local/lib/dllm/plugins.
set(DLLM_ADD_PLUGIN_DIR ${CMAKE_CURRENT_LIST_DIR})

function(dllm_add_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "NO_INSTALL" "NAME;KIND;OUTPUT_DIRECTORY" "SOURCES;LIBRARIES")
  if(NOT ARG_NAME OR NOT ARG_SOURCES OR NOT ARG_KIND MATCHES "^(sampler|backend|model)$")
    message(FATAL_ERROR "dllm_add_plugin: give NAME, KIND sampler|backend|model and SOURCES")
  endif()
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "dllm_add_plugin(${ARG_NAME}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  add_library(${ARG_NAME} MODULE ${ARG_SOURCES})
  if(ARG_KIND STREQUAL "sampler")
    target_link_libraries(${ARG_NAME} PRIVATE dllm::plugin_sdk)
  elseif(TARGET dllm::core)
    target_link_libraries(${ARG_NAME} PRIVATE dllm::core)
  else()
    message(FATAL_ERROR "dllm_add_plugin(${ARG_NAME}): a ${ARG_KIND} links dllm::core; call "
                        "find_package(Dllm CONFIG REQUIRED) first")
  endif()
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_LIBRARIES})
  if(TARGET dllm_build_flags)
    target_link_libraries(${ARG_NAME} PRIVATE dllm_build_flags)
  endif()
  set_target_properties(${ARG_NAME} PROPERTIES
    PREFIX "" SUFFIX ".so" C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    # An installed plugin finds libdllm.so two folders up.
    INSTALL_RPATH "$ORIGIN/../..")
  target_link_options(${ARG_NAME} PRIVATE
    "LINKER:--version-script=${DLLM_ADD_PLUGIN_DIR}/plugin.version")
  if(NOT DLLM_SANITIZE)
    # Sanitizer runtimes are resolved by the executable, so they are undefined here by design.
    target_link_options(${ARG_NAME} PRIVATE LINKER:--no-undefined)
  endif()
  set_property(TARGET ${ARG_NAME} APPEND PROPERTY LINK_DEPENDS ${DLLM_ADD_PLUGIN_DIR}/plugin.version)
  if(ARG_OUTPUT_DIRECTORY)
    set_target_properties(${ARG_NAME} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${ARG_OUTPUT_DIRECTORY})
  elseif(DLLM_PLUGIN_OUTPUT_DIRECTORY)
    set_target_properties(${ARG_NAME} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${DLLM_PLUGIN_OUTPUT_DIRECTORY})
  endif()
  if(DLLM_PLUGIN_INSTALL_DIRECTORY AND NOT ARG_NO_INSTALL)
    install(TARGETS ${ARG_NAME} LIBRARY DESTINATION ${DLLM_PLUGIN_INSTALL_DIRECTORY}
            COMPONENT runtime)
  endif()
endfunction()
