2set(A 1 "b ${C}" [==[x]==]) # y
#[[ z ]]
if(USE_ROCM AND NOT X)
FetchContent_Declare(a GIT_REPOSITORY https://x/y GIT_TAG 0123456)
else()
set(B c\;d)
endif()
function(f) set(x y) endfunction()
