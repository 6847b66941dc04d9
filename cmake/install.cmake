# SPDX-License-Identifier: Apache-2.0
# What "cmake --install" puts where: headers, libraries, kernels, the pkg-config file and the CMake package. The tool, its
# manual and its completion are installed by cli/. All of it can be moved as a whole.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/nibble DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS nibble nibble_static EXPORT nibbleTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET nibble_webgpu)
  install(TARGETS nibble_webgpu
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

# kernels/NAME is contract version 1 of a package, kernels/vN/NAME version N.
install(DIRECTORY kernels/ DESTINATION ${CMAKE_INSTALL_DATADIR}/nibble/kernels
  PATTERN "*.py" EXCLUDE PATTERN "shared" EXCLUDE)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Debian's name for it.
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# For a static link; -lpthreadpool when the build uses it.
set(NIB_PRIVATE_LIBS "-lm -lpthread -ldl")
if(NIB_CPU_LINK)
  string(PREPEND NIB_PRIVATE_LIBS "-lpthreadpool ")
endif()
configure_file(cmake/nibble.pc.in nibble.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/nibble.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nibble)
configure_package_config_file(cmake/nibbleConfig.cmake.in nibbleConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(nibbleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/nibbleConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/nibbleConfigVersion.cmake
  DESTINATION ${package_dir})
install(EXPORT nibbleTargets NAMESPACE nibble:: DESTINATION ${package_dir})

# "cpack -G DEB" in the build folder makes a Debian package, "cpack -G TGZ" an archive.
set(CPACK_PACKAGE_NAME nibble)
set(CPACK_PACKAGE_VENDOR "nibble developers")
set(CPACK_PACKAGE_CONTACT "nibble developers <dev@nibble.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "WebGPU kernel packages, run natively")
set(CPACK_PACKAGE_DESCRIPTION
  "Loads declarative WebGPU kernel packages, plans a call from the manifest,
and runs it on the CPU or a GPU. Contains the library, its headers, the
nibble tool, and kernels for quantized matrix products.")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_CURRENT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# The tool finds its own library, and the library's module, beside it.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_CURRENT_BINARY_DIR})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
include(CPack)
