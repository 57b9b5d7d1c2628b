# `make package`: an archive and a .deb with the easydel command and every library it loads, except for those that all
# systems have. Headers are left out: a program that links easydel needs torch's too.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
cmake_path(GET EASYDEL_TORCH PARENT_PATH _site_packages)
install(CODE "set(program \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/easydel)
  set(destination \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${_bundle})
  set(licenses \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}/licenses)
  set(site_packages [[${_site_packages}]])
  include([[${PROJECT_SOURCE_DIR}/cmake/EasydelBundle.cmake]])"
  COMPONENT bundle EXCLUDE_FROM_ALL)

string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" _system)
if(EASYDEL_HAS_CUDA)
  string(APPEND _system -cuda)
endif()
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME easydel)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "easydel.cpp")
set(CPACK_PACKAGE_CONTACT "The developers of easydel.cpp")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_FILE_NAME easydel-${PROJECT_VERSION}-${_system})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
# Two of the components, and the second looks at what the first has installed.
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};easydel;runtime;/;${PROJECT_BINARY_DIR};easydel;bundle;/")

# The program runs with the C library that it was built with, and with newer ones.
execute_process(COMMAND getconf GNU_LIBC_VERSION OUTPUT_VARIABLE _libc ERROR_QUIET)
string(REGEX MATCH "[0-9.]+" _libc "${_libc}")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= ${_libc}), libstdc++6, libgcc-s1")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  string(REPLACE "libstdc++6" "libstdc++6 (>= ${CMAKE_CXX_COMPILER_VERSION})" CPACK_DEBIAN_PACKAGE_DEPENDS
         "${CPACK_DEBIAN_PACKAGE_DEPENDS}")
endif()
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)  # for the hub
set(CPACK_DEBIAN_PACKAGE_SUGGESTS openmpi-bin)        # for ranks on several hosts
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
