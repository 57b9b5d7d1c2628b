# `cmake --install` gives headers, library, binary and a package file for find_package(easydel).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

target_link_libraries(easydel PUBLIC ${TORCH_LIBRARIES} Threads::Threads PRIVATE $<BUILD_INTERFACE:easydel_flags>)
target_include_directories(easydel PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_include_directories(easydel SYSTEM PUBLIC "$<BUILD_INTERFACE:${TORCH_INCLUDE_DIRS}>")
target_compile_features(easydel PUBLIC cxx_std_20)
# Some torch wheels export parts of std::filesystem that crash (2.11: remove_all). Symbols are looked up in the order of
# the libraries, so the real one has to stand before torch, in every program that links easydel.
target_link_options(easydel PUBLIC LINKER:--push-state,--no-as-needed,-l:libstdc++.so.6,--pop-state)
# A torch inside of this clone (.venv) is installed beside easydel, so that what is installed outlives the clone.
string(FIND "${EASYDEL_TORCH}/" "${PROJECT_SOURCE_DIR}/" _position)
set(_torch_is_ours OFF)
if(_position EQUAL 0)
  set(_torch_is_ours ON)
endif()
option(EASYDEL_INSTALL_TORCH "Install the libraries of torch and Arrow beside easydel's" ${_torch_is_ours})
set(_bundle ${CMAKE_INSTALL_LIBDIR}/easydel)
if(EASYDEL_INSTALL_TORCH)
  file(GLOB _torch_libraries ${EASYDEL_TORCH}/lib/libtorch.so ${EASYDEL_TORCH}/lib/libtorch_c*.so
       ${EASYDEL_TORCH}/lib/libc10*.so ${EASYDEL_TORCH}/lib/libgomp*.so*)
  install(FILES ${_torch_libraries} ${_arrow_libraries} DESTINATION ${_bundle} COMPONENT runtime)
  set(_libraries "")
else()
  set(_libraries "${EASYDEL_TORCH}/lib")
  if(_arrow_libraries)  # those of the pyarrow package
    list(GET _arrow_libraries 0 _arrow)
    cmake_path(GET _arrow PARENT_PATH _arrow)
    list(APPEND _libraries ${_arrow})
  endif()
endif()
if(EASYDEL_HAS_NCCL)
  cmake_path(GET NCCL_LIBRARY PARENT_PATH _nccl)
  list(APPEND _libraries ${_nccl})
endif()
# What the library calls of its own is called directly, without a look-up by name at the first call.
target_link_options(easydel PRIVATE LINKER:-Bsymbolic-functions,-z,relro,-z,now)
set_target_properties(easydel PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  INSTALL_RPATH "$ORIGIN;$ORIGIN/easydel;${_libraries}")

install(TARGETS easydel EXPORT easydelTargets
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT development ARCHIVE COMPONENT development)
if(TARGET easydel_cli)
  set_target_properties(easydel_cli PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../${_bundle};${_libraries}")
  # RPATH and not RUNPATH, which would not hold for the libraries of libraries in a package.
  target_link_options(easydel_cli PRIVATE LINKER:--disable-new-dtags)
  install(TARGETS easydel_cli RUNTIME COMPONENT runtime)
endif()
install(CODE "set(source [[${PROJECT_SOURCE_DIR}]])
  set(destination \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR})
  include([[${PROJECT_SOURCE_DIR}/cmake/EasydelInstallHeaders.cmake]])"
  COMPONENT development)
set(EASYDEL_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/easydel)
install(EXPORT easydelTargets NAMESPACE easydel:: DESTINATION ${EASYDEL_CMAKE_DIR} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/easydelConfig.cmake.in
  ${PROJECT_BINARY_DIR}/easydelConfig.cmake INSTALL_DESTINATION ${EASYDEL_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/easydelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/easydelConfig.cmake ${PROJECT_BINARY_DIR}/easydelConfigVersion.cmake
        DESTINATION ${EASYDEL_CMAKE_DIR} COMPONENT development)

if(PROJECT_IS_TOP_LEVEL AND TARGET easydel_cli)
  include(EasydelPackage)
endif()
