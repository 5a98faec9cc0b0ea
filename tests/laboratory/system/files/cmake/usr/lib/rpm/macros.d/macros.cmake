# Replaces Fedora's cmake-rpm-macros.
%__cmake /usr/bin/cmake
%__ctest /usr/bin/ctest
%_vpath_srcdir .
%_vpath_builddir %{_target_platform}
%__cmake_builddir %{!?__cmake_in_source_build:%{_vpath_builddir}}%{?__cmake_in_source_build:.}
%cmake \
  %{set_build_flags} \
  %{__cmake} -S "%{_vpath_srcdir}" -B "%{__cmake_builddir}" \\\
    -DCMAKE_BUILD_TYPE:STRING=RelWithDebInfo \\\
    -DCMAKE_C_FLAGS_RELEASE:STRING="-DNDEBUG" \\\
    -DCMAKE_CXX_FLAGS_RELEASE:STRING="-DNDEBUG" \\\
    -DCMAKE_VERBOSE_MAKEFILE:BOOL=ON \\\
    -DCMAKE_INSTALL_DO_STRIP:BOOL=OFF \\\
    -DCMAKE_INSTALL_PREFIX:PATH=%{_prefix} \\\
    -DCMAKE_INSTALL_FULL_SBINDIR:PATH=%{_sbindir} \\\
    -DCMAKE_INSTALL_SBINDIR:PATH=bin \\\
    -DCMAKE_INSTALL_LIBDIR:PATH=%{_lib} \\\
    -DLIB_SUFFIX=64 \\\
    -DBUILD_SHARED_LIBS:BOOL=ON
%cmake_build %{__cmake} --build "%{__cmake_builddir}" %{?_smp_mflags} --verbose
%cmake_install DESTDIR="%{buildroot}" %{__cmake} --install "%{__cmake_builddir}"
%ctest %{__ctest} --test-dir "%{__cmake_builddir}" --output-on-failure --force-new-ctest-process %{?_smp_mflags}
