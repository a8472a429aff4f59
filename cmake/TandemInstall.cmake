# Install rules: the shared library, headers, find_package(tandem) -> tandem::tandem, pkg-config, the CLI.
include(CMakePackageConfigHelpers)

install(TARGETS tandem EXPORT tandem-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tandem-targets NAMESPACE tandem:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
configure_package_config_file(cmake/tandem-config.cmake.in ${PROJECT_BINARY_DIR}/tandem-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandem-config.cmake ${PROJECT_BINARY_DIR}/tandem-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
file(RELATIVE_PATH TANDEM_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)  # an installation may be moved
configure_file(cmake/tandem.pc.in ${PROJECT_BINARY_DIR}/tandem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tandem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET tandem_cli)
  install(TARGETS tandem_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET tandem_model)
  install(TARGETS tandem_model LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
