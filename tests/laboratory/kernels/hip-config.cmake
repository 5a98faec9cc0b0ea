# Stands in for HIP's package: configuring AOTriton and compiling its kernels needs only the names.
foreach(name host device amdhip64)
  if(NOT TARGET hip::${name})
    add_library(hip::${name} INTERFACE IMPORTED)
  endif()
endforeach()
set(hip_FOUND TRUE)
