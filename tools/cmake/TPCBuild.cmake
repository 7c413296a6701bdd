# Build functions for the CMakeLists.txt files of the project.
#
#   tpc_add_library(TPCFoo [FILES a.cpp …] [DEPENDS targets …] [LINK libs …]
#                   [ALONE a.cpp … | NO_UNITY | TWO_UNITS] [INLINED]
#                   [PLAIN [PCH name] | RTTI | LOWERING])
#       A static library of the compiler. Without FILES: all *.cpp of the folder, so that a new file
#       needs no edit. PLAIN: standard C++ only, without LLVM; PCH is its precompiled header, by
#       default tpc-pch-plain. RTTI: with RTTI and exceptions (and therefore without a precompiled
#       header), for code that uses libraries that need them.
#       LOWERING: precompiles the headers of kernels, buffers and NVVM too.
#       ALONE, NO_UNITY: files, or a library, that TPC_UNITY does not combine: their names clash.
#       TWO_UNITS: TPC_UNITY combines files with `using namespace mlir` apart from the others.
#       INLINED: TPC_UNITY does not reduce inlining in this library, which runs programs.
#   tpc_add_tool(tpc-foo [FILES …] [LINK libs …])
#       An executable in build/bin, with the same options.
#   tpc_add_unittest(FooTests [FILES …] [LINK libs …] [PLAIN] [ARGS …] [LAUNCH command …]
#                    [LEVEL default])
#       A GoogleTest program, registered for the test runner (test/run.py). LAUNCH is its
#       launcher (mpirun …). LEVEL: the first test level that runs it: quick, default or long.
#       PLAIN: as above, with RTTI and exceptions.
#   tpc_add_passes(TPCFooPasses PREFIX Foo)    in include/tpc/Transforms/Foo: Passes.td -> Passes.h.inc
#   tpc_add_op_interfaces(FooOp)               next to FooOp.td: FooOp.{h,cpp}.inc; a library that uses
#       them adds DEPENDS TPCFooOpIncGen, and includes ${CMAKE_CURRENT_BINARY_DIR}
# All libraries of the compiler depend on all TableGen outputs below include/.

# ---- compiler, linker, cache ----

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
add_compile_options(-fPIC) # for executables as well: they share the precompiled header
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
# Flags without NDEBUG: assertions are a separate option, TPC_ASSERTIONS.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -gline-tables-only -fno-omit-frame-pointer")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -gline-tables-only -fno-omit-frame-pointer")

add_compile_options(-Wall -Wextra -fdiagnostics-color=auto)
add_link_options(-fuse-ld=lld)
if(TPC_ASSERTIONS)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
else()
  add_compile_definitions(NDEBUG)
endif()
if(TPC_SANITIZE)
  add_compile_options(-fsanitize=${TPC_SANITIZE} -fno-sanitize=vptr,function
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TPC_SANITIZE})
endif()

# ccache needs these exceptions for precompiled headers and __TIME__. It reads included files from
# the dependency file, without a run of the preprocessor, and the digest of a precompiled header from
# its .sum file.
find_program(TPC_CCACHE ccache)
if(TPC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${TPC_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_DEPEND=1 CCACHE_PCH_EXTSUM=1 ${TPC_CCACHE})
endif()

# Files of a library include the same headers and instantiate the same templates. In units of 24 files,
# a build from scratch takes two thirds of the time; after an edit, the whole unit is compiled again.
option(TPC_UNITY "Compile files of a library together" OFF)

# ---- dependencies ----

find_package(MLIR 22.1 REQUIRED CONFIG)
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND "${LLVM_DEFINITIONS}")

find_package(GTest REQUIRED)
find_package(Threads REQUIRED)

# The Python with onnx (for its schema, onnx.proto) and the packages of the tests: `setup` makes .venv.
set(venvs ${PROJECT_SOURCE_DIR}/.venv $ENV{VIRTUAL_ENV})
if(SKBUILD) # pip builds with the Python that has the requirements of pyproject.toml
  set(TPC_PYTHON ${Python3_EXECUTABLE} CACHE FILEPATH "Python with onnx")
endif()
find_program(TPC_PYTHON NAMES python3 NO_DEFAULT_PATH PATHS ${venvs} PATH_SUFFIXES bin
             DOC "Python with onnx, onnxruntime, numpy and pytest")
if(TPC_PYTHON AND NOT TPC_ONNX_PROTO_DIR)
  execute_process(COMMAND ${TPC_PYTHON} -c
    "import importlib.util as u; print(u.find_spec('onnx').submodule_search_locations[0])"
    OUTPUT_VARIABLE dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS ${dir}/onnx.proto)
    set(TPC_ONNX_PROTO_DIR ${dir} CACHE PATH "Folder of onnx.proto")
  endif()
endif()
if(NOT TPC_ONNX_PROTO_DIR)
  message(FATAL_ERROR "No Python with the onnx package: run ./setup, or pass -DTPC_PYTHON=…")
endif()

# LLVM options for the project's code. Folders that call mlir_tablegen also call
# include_directories, because mlir_tablegen reads that property of the folder.
add_library(tpc-llvm INTERFACE)
target_include_directories(tpc-llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_definitions(tpc-llvm INTERFACE ${LLVM_DEFINITIONS_LIST})
# Tools link the archives of LLVM and MLIR (TPC_STATIC_LLVM), tests the shared libraries, whose
# relocation takes 35 ms of each start. For link-time optimization, lld initializes all targets of
# LLVM and refers to Polly. tpc links no bitcode, so only the native target and NVPTX are linked;
# NoTarget.cpp defines the functions of the others.
add_library(tpc-llvm-shared INTERFACE)
target_link_libraries(tpc-llvm-shared INTERFACE MLIR LLVM)
file(GLOB archives ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
list(FILTER archives EXCLUDE REGEX "MLIRCAPI|Test|LLVMExegesis|LLVMBOLT")
set(unused _Z18getPollyPluginInfov)
set(targets ${LLVM_TARGETS_TO_BUILD})
list(REMOVE_ITEM targets ${LLVM_NATIVE_ARCH} NVPTX)
foreach(part Target TargetInfo TargetMC AsmPrinter AsmParser)
  list(TRANSFORM targets REPLACE "(.+)" "LLVMInitialize\\1${part}" OUTPUT_VARIABLE functions)
  list(APPEND unused ${functions})
endforeach()
list(TRANSFORM unused REPLACE "(.+)" "--defsym=\\1=tpcNoTarget")
list(JOIN unused "\n" unused)
list(JOIN archives "\n" archives)
file(WRITE ${PROJECT_BINARY_DIR}/llvm-archives.txt "${unused}\n${archives}\n")
add_library(tpc-llvm-static INTERFACE)
foreach(name z zstd) # LLVM compresses debug sections
  find_library(TPC_${name} ${name} REQUIRED)
endforeach()
add_library(tpc-no-target OBJECT ${PROJECT_SOURCE_DIR}/tools/cmake/NoTarget.cpp)
target_link_libraries(tpc-llvm-static INTERFACE $<TARGET_OBJECTS:tpc-no-target> -Wl,@${PROJECT_BINARY_DIR}/llvm-archives.txt
                      ${TPC_z} ${TPC_zstd} Threads::Threads)
target_link_options(tpc-llvm-static INTERFACE -Wl,--gc-sections -no-pie)
add_library(tpc-headers INTERFACE)
target_include_directories(tpc-headers INTERFACE ${PROJECT_SOURCE_DIR}/include
                                                 ${PROJECT_BINARY_DIR}/include)
add_custom_target(tpc-tablegen)

# tpc_add_pch(name headers [options …]): precompiles headers, for tpc_use_pch(target name).
function(tpc_add_pch name headers)
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/tools/cmake/Pch.cpp)
  target_compile_options(${name} PRIVATE ${ARGN} "SHELL:-Xclang -fno-pch-timestamp")
  target_precompile_headers(${name} PRIVATE ${headers})
  # Compiled without ccache, which would keep the old file if only comments change: clang would
  # reject it, because the sizes of headers differ.
  set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER
                        ${PROJECT_SOURCE_DIR}/tools/cmake/compile-pch)
endfunction()
function(tpc_use_pch target name)
  target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()

# Headers of the compiler, of its lowering, and of code without LLVM.
set(pch_dir ${PROJECT_SOURCE_DIR}/tools/cmake)
tpc_add_pch(tpc-pch-lowering ${pch_dir}/PchLowering.h -fno-exceptions -fno-rtti -Wno-unused-parameter)
tpc_add_pch(tpc-pch-plain ${pch_dir}/PchPlain.h)
set(TPC_PCH tpc-pch-lowering)
if(NOT TPC_UNITY) # one header for both: faster from scratch, slower after a change of Kernel.h
  tpc_add_pch(tpc-pch ${pch_dir}/Pch.h -fno-exceptions -fno-rtti -Wno-unused-parameter)
  set(TPC_PCH tpc-pch)
endif()
foreach(name tpc-pch-lowering ${TPC_PCH})
  target_link_libraries(${name} PRIVATE tpc-llvm tpc-headers)
  add_dependencies(${name} tpc-tablegen)
endforeach()

if(TPC_SANITIZE MATCHES "address")
  add_library(tpc-sanitizer-options OBJECT ${PROJECT_SOURCE_DIR}/tools/cmake/SanitizerOptions.cpp)
endif()

# ---- functions ----

function(tpc_add_optional_subdirectory dir)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/CMakeLists.txt)
    add_subdirectory(${dir})
  endif()
endfunction()

function(_tpc_configure target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "PLAIN;RTTI;LOWERING;NO_UNITY" "PCH" "DEPENDS;LINK;ALONE")
  if(NOT ARG_PCH)
    set(ARG_PCH tpc-pch-plain)
  endif()
  get_target_property(type ${target} TYPE)
  if(TPC_SANITIZE MATCHES "address" AND type STREQUAL "EXECUTABLE")
    target_link_libraries(${target} PRIVATE tpc-sanitizer-options)
  endif()
  target_link_libraries(${target} PUBLIC tpc-headers ${ARG_LINK})
  if(NOT ARG_PLAIN)
    target_link_libraries(${target} PUBLIC tpc-llvm)
    target_link_libraries(${target} PUBLIC
      tpc-llvm-$<IF:$<BOOL:$<TARGET_PROPERTY:TPC_STATIC_LLVM>>,static,shared>)
    target_compile_options(${target} PRIVATE -Wno-unused-parameter)
    add_dependencies(${target} tpc-tablegen ${ARG_DEPENDS})
    if(NOT ARG_RTTI)
      target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti)
      if(ARG_LOWERING)
        tpc_use_pch(${target} tpc-pch-lowering)
      else()
        tpc_use_pch(${target} ${TPC_PCH})
      endif()
    endif()
  else()
    tpc_use_pch(${target} ${ARG_PCH})
    if(ARG_DEPENDS)
      add_dependencies(${target} ${ARG_DEPENDS})
    endif()
  endif()
endfunction()

macro(_tpc_sources)
  set(sources ${ARG_FILES})
  if(NOT sources)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
endmacro()

function(tpc_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "PLAIN;RTTI;LOWERING;INLINED;NO_UNITY;TWO_UNITS" "PCH" "FILES;DEPENDS;LINK;ALONE")
  _tpc_sources()
  add_library(${name} STATIC ${sources})
  list(REMOVE_ITEM ARGN INLINED TWO_UNITS)
  list(REMOVE_ITEM ARGN FILES ${ARG_FILES})
  _tpc_configure(${name} ${ARGN})
  if(TPC_UNITY AND NOT ARG_PLAIN AND NOT ARG_INLINED)
    # Less inlining compiles in a quarter less time.
    target_compile_options(${name} PRIVATE "SHELL:-mllvm -inline-threshold=60")
  endif()
  if(TPC_UNITY AND NOT ARG_PLAIN AND NOT ARG_NO_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
    if(ARG_ALONE)
      set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
    if(ARG_TWO_UNITS) # `tpc` is ambiguous after `using namespace mlir`
      set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
      foreach(source ${sources})
        file(STRINGS ${source} unit REGEX "^using namespace (::)?mlir;" LIMIT_COUNT 1)
        string(COMPARE NOTEQUAL "${unit}" "" unit)
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit})
      endforeach()
    endif()
  endif()
  set_property(GLOBAL APPEND PROPERTY TPC_LIBRARIES ${name})
endfunction()

function(tpc_add_tool name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "PLAIN;RTTI" "" "FILES;DEPENDS;LINK")
  _tpc_sources()
  add_executable(${name} ${sources})
  if(NOT TPC_SANITIZE) # inline functions could be linked from archives, which have no checks
    set_target_properties(${name} PROPERTIES TPC_STATIC_LLVM ON)
  endif()
  list(REMOVE_ITEM ARGN FILES ${ARG_FILES})
  _tpc_configure(${name} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY TPC_TOOLS ${name})
endfunction()

function(tpc_add_unittest name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "PLAIN;RTTI" "LEVEL" "FILES;DEPENDS;LINK;ARGS;LAUNCH")
  _tpc_sources()
  add_executable(${name} ${sources})
  set(kind "")
  if(ARG_PLAIN)
    set(kind PLAIN)
  elseif(ARG_RTTI)
    set(kind RTTI)
  endif()
  _tpc_configure(${name} ${kind} DEPENDS ${ARG_DEPENDS} LINK ${ARG_LINK} GTest::gtest
                 GTest::gtest_main Threads::Threads)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/test/bin)
  add_test(NAME ${name} COMMAND ${ARG_LAUNCH} $<TARGET_FILE:${name}> ${ARG_ARGS})
  set_property(GLOBAL APPEND PROPERTY TPC_UNITTESTS ${name})
  # One line for the runner: name, level, then the command, separated by tabs.
  if(NOT ARG_LEVEL)
    set(ARG_LEVEL quick)
  endif()
  list(JOIN ARG_LAUNCH "\t" launch)
  list(JOIN ARG_ARGS "\t" args)
  set_property(GLOBAL APPEND PROPERTY TPC_UNITTEST_LINES
    "${name}\t${ARG_LEVEL}\t${launch}\t${PROJECT_BINARY_DIR}/test/bin/${name}\t${args}")
endfunction()

function(tpc_add_passes name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "PREFIX" "")
  set(LLVM_TARGET_DEFINITIONS Passes.td)
  mlir_tablegen(Passes.h.inc -gen-pass-decls -name ${ARG_PREFIX})
  add_public_tablegen_target(${name})
endfunction()

function(tpc_add_op_interfaces name)
  # mlir_tablegen reads this property of the folder.
  include_directories(SYSTEM ${MLIR_INCLUDE_DIRS})
  set(LLVM_TARGET_DEFINITIONS ${name}.td)
  mlir_tablegen(${name}.h.inc -gen-op-interface-decls)
  mlir_tablegen(${name}.cpp.inc -gen-op-interface-defs)
  add_public_tablegen_target(TPC${name}IncGen)
endfunction()
