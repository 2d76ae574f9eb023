# What a fault in a parser of untrusted bytes must not become: SECURITY.md says why each is here, and
# tests/hardening that each arrived in the files built. Included after dllm_build_flags exists.
include(CheckCXXCompilerFlag)
include(CheckPIESupported)
check_pie_supported()

foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full)
  string(MAKE_C_IDENTIFIER "DLLM_HAS${flag}" known)
  check_cxx_compiler_flag(${flag} ${known})  # the last is x86-64's alone
  if(${known})
    target_compile_options(dllm_build_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:${flag}>)
  endif()
endforeach()

# The C library's checked functions need an optimised build, and would hide faults from the sanitizers.
if(NOT DLLM_SANITIZE)
  target_compile_options(dllm_build_flags INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE$<SEMICOLON>-D_FORTIFY_SOURCE=2>)
endif()

# Index checks of the standard containers everywhere but in the kernels, which set the property.
target_compile_definitions(dllm_build_flags INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:DLLM_UNCHECKED_CONTAINERS>>>>:_GLIBCXX_ASSERTIONS>)

# Read-only relocations, bound at start; no stack that runs code; code and data in pages of their own.
target_link_options(dllm_build_flags INTERFACE
  LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack LINKER:-z,separate-code)
