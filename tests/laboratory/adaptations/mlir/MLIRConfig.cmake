# Finds Debian's MLIR and LLVM, and replaces the shared LLVM with its static libraries, which Triton's
# package links.
include(/usr/lib/llvm-22/lib/cmake/mlir/MLIRConfig.cmake)
set(static_libraries "")
foreach(library ${LLVM_AVAILABLE_LIBS})
  # Neither LLVM's line editor, which requires libedit, nor its benchmarks of instructions, which require
  # libpfm, nor libraries that are not packaged.
  if(TARGET ${library} AND library MATCHES "^LLVM" AND NOT library MATCHES "^LLVM(LineEditor|Exegesis)")
    get_target_property(type ${library} TYPE)
    if(type STREQUAL STATIC_LIBRARY)
      list(APPEND static_libraries ${library})
    endif()
  endif()
endforeach()
get_target_property(configuration LLVM IMPORTED_CONFIGURATIONS)
set_target_properties(LLVM PROPERTIES
  IMPORTED_LOCATION_${configuration} ${LLVM_LIBRARY_DIR}/libLLVMSupport.a
  INTERFACE_LINK_LIBRARIES "${static_libraries}")
