# Files of `cmake --install`: tools, the libraries that they link into programs, and the headers for
# code that loads programs. tpcc links programs with files of ../lib, relative to its folder bin/, so
# both folders have one prefix.
#
# TPC_BUNDLE_LIBRARIES also installs the shared libraries that the tools need (for compression), but
# not the C and C++ libraries. Then the tools run on a machine without development packages.

option(TPC_BUNDLE_LIBRARIES "Install the shared libraries that the tools need, too" OFF)
set(TPC_INSTALL_PREFIX "" CACHE STRING "Folder below the prefix that bin, lib and include go to")

function(tpc_install)
  if(TPC_INSTALL_PREFIX)
    set(below ${TPC_INSTALL_PREFIX}/)
  endif()
  if(TPC_BUNDLE_LIBRARIES)
    # DT_RPATH applies to indirect dependencies as well.
    set_target_properties(${ARGN} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
    target_link_options(tpcc PRIVATE -Wl,--disable-new-dtags)
    install(TARGETS ${ARGN} RUNTIME DESTINATION ${below}bin COMPONENT tpc)
    # Each library is installed once, under its soname, because wheels have no links. The C and C++
    # libraries are those of the machine, because programs that tpcc links need them too.
    install(CODE "set(tpcc $<TARGET_FILE:tpcc>)
                  set(llvm ${LLVM_LIBRARY_DIR})
                  set(lib \${CMAKE_INSTALL_PREFIX}/${below}lib)" COMPONENT tpc)
    install(CODE [[
      file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${tpcc} DIRECTORIES ${llvm}
           RESOLVED_DEPENDENCIES_VAR libraries
           PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|gcc_s|stdc\\+\\+)\\.so")
      foreach(library ${libraries})
        get_filename_component(name ${library} NAME)
        file(REAL_PATH ${library} path)
        file(INSTALL ${path} DESTINATION ${lib} RENAME ${name})
      endforeach()
    ]] COMPONENT tpc)
  else()
    set_target_properties(${ARGN} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS ${ARGN} RUNTIME DESTINATION ${below}bin COMPONENT tpc)
  endif()
  if(TARGET tpc_runtime)
    install(TARGETS tpc_runtime ARCHIVE DESTINATION ${below}lib COMPONENT tpc)
    install(FILES ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/tpc_start.o
                  ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/tpc_shared.o
            DESTINATION ${below}lib COMPONENT tpc)
    install(FILES ${PROJECT_SOURCE_DIR}/runtime/include/tpc/session.h
                  ${PROJECT_SOURCE_DIR}/runtime/include/tpc/dtype.h
            DESTINATION ${below}include/tpc COMPONENT tpc)
  endif()
  foreach(library tpc_mpi tpc_cuda)
    if(TARGET ${library})
      install(TARGETS ${library} LIBRARY DESTINATION ${below}lib COMPONENT tpc)
    endif()
  endforeach()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/cuda/tunings DESTINATION ${below}share/tpc COMPONENT tpc)
endfunction()
