# Builds a simulated vendor library into the folder for TPC_CUDA_LIBS:
#   tpc_add_simulated_library(TPCSimCuda libcuda.so.1 HEADERS cuda.h LINK …)
# HEADERS: the vendor's headers. If they are installed, CheckHeaders.cpp compares declarations with
# them.
set(TPC_SIMULATOR_DIR ${PROJECT_BINARY_DIR}/lib/simulator)
tpc_add_pch(tpc-pch-simulator ${PROJECT_SOURCE_DIR}/tools/cmake/PchPlain.h
            -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing)
function(tpc_add_simulated_library name file)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "" "HEADERS;LINK")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX /CheckHeaders\\.cpp$)
  add_library(${name} SHARED ${sources})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} Threads::Threads)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  # nodelete: the libraries have threads, which continue after dlclose. Only marked functions are
  # visible, as in the vendors' libraries.
  target_compile_options(${name} PRIVATE -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing)
  tpc_use_pch(${name} tpc-pch-simulator)
  target_link_options(${name} PRIVATE -Wl,-z,nodelete
    -Wl,--version-script=${CMAKE_CURRENT_FUNCTION_LIST_DIR}/exports.map)
  if(NOT TPC_SANITIZE) # with sanitizers, the program defines their symbols
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  tpc_compare_with_vendor(${name}Headers CheckHeaders.cpp HEADERS ${ARG_HEADERS}
    INCLUDES ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME ${file} SUFFIX ""
    LIBRARY_OUTPUT_DIRECTORY ${TPC_SIMULATOR_DIR} BUILD_RPATH "$ORIGIN")
  set_property(GLOBAL APPEND PROPERTY TPC_SIMULATED ${name})
endfunction()
