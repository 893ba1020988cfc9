# Helpers that keep the CMake files of the folders to lists of names.

if(NOT TERNGRAD_THREADS MATCHES "^(openmp|std)$")
  message(FATAL_ERROR "TERNGRAD_THREADS=${TERNGRAD_THREADS}: choose openmp or std")
endif()

if(NOT TERNGRAD_UNITY_BUILD MATCHES "^(none|tests|libraries|all)$")
  message(FATAL_ERROR "TERNGRAD_UNITY_BUILD=${TERNGRAD_UNITY_BUILD}: choose none, tests, libraries or all")
endif()

find_package(Threads REQUIRED)
if(TERNGRAD_THREADS STREQUAL "openmp")
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()

# Instruction sets that SIMD code is compiled for, one after the other: this machine's alone, or all but SSSE3, as processors with it
# and without SSE4.1 are from before 2008.
find_package(hwy QUIET)
if(hwy_FOUND)
  set_property(TARGET hwy::hwy APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS
               $<IF:$<BOOL:${TERNGRAD_NATIVE}>,HWY_COMPILE_ONLY_STATIC,HWY_DISABLED_TARGETS=HWY_SSSE3>)
endif()

# Flags that every target of this project is built with. Bits count here (contract B1): no contraction of a*b+c and no
# value-changing optimisation, in any build type.
function(terngrad_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                             POSITION_INDEPENDENT_CODE ON)
  set(warnings -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 warns falsely about std::string's operator+ (GCC bug 105651).
    list(APPEND warnings -Wno-restrict)
  endif()
  if(TERNGRAD_WERROR)
    list(APPEND warnings -Werror)
  endif()
  if(TERNGRAD_NATIVE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;${warnings}>")
  if(TERNGRAD_WITH_CUDA)
    # Kernels keep multiplications and additions apart too, and share constexpr functions with the host. One that spills
    # registers is a mistake.
    list(JOIN warnings "," host_warnings)
    set(cuda_options -fmad=false --expt-relaxed-constexpr -Xcompiler=-ffp-contract=off,${host_warnings}
                     -Xptxas=--warn-on-spills,--warn-on-local-memory-usage)
    if(TERNGRAD_WERROR)
      list(APPEND cuda_options -Werror=all-warnings -Xptxas=--warning-as-error)
    endif()
    # Counts are of 64 bits: without this every algorithm of Thrust is compiled for 32 bits too.
    target_compile_definitions(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:THRUST_FORCE_64_BIT_OFFSET_TYPE>)
    target_compile_features(${target} PUBLIC cuda_std_20)
    set_target_properties(${target} PROPERTIES CUDA_EXTENSIONS OFF CUDA_VISIBILITY_PRESET hidden CUDA_RUNTIME_LIBRARY Shared)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_options}>")
  endif()
  if(TERNGRAD_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${TERNGRAD_SANITIZE} -fno-omit-frame-pointer)
    if(TERNGRAD_SANITIZE MATCHES "undefined")
      target_compile_options(${target} PRIVATE -fno-sanitize-recover=all)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${TERNGRAD_SANITIZE})
  endif()
endfunction()

# terngrad_unity_build(target kind): where TERNGRAD_UNITY_BUILD asks for that kind (tests, libraries or all) or a later one,
# compiles the sources that a target of this folder was given so far in batches of sixteen; what is added later stays separate.
# Not for sources that Highway includes once per instruction set, nor for kernels, whose helpers have the same names from file
# to file. CMake's own unity builds name sources by absolute paths, so that no clone would find in a compiler cache what
# another one left.
function(terngrad_unity_build target kind)
  set(kinds none tests libraries all)
  list(FIND kinds "${kind}" needed)
  list(FIND kinds "${TERNGRAD_UNITY_BUILD}" asked)
  if(asked LESS needed)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(together "")
  set(separate "")
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX PROJECT_SOURCE_DIR ${path} is_ours)
    cmake_path(IS_PREFIX PROJECT_BINARY_DIR ${path} is_generated)
    if(source MATCHES "^[^$]*\\.cpp$" AND is_ours AND NOT is_generated)
      cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      list(APPEND together ${path})
    else()
      list(APPEND separate ${source})
    endif()
  endforeach()
  if(NOT together)
    return()
  endif()
  list(LENGTH together num_sources)
  math(EXPR last "${num_sources} - 1")
  foreach(begin RANGE 0 ${last} 16)
    list(SUBLIST together ${begin} 16 batch)
    list(TRANSFORM batch PREPEND "#include \"")
    list(TRANSFORM batch APPEND "\"")
    list(JOIN batch "\n" lines)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/unity/${target}_${begin}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${lines}\n" @ONLY)
    list(APPEND separate ${file})
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${separate}")
endfunction()

# terngrad_room(library room [SOURCES a.cpp ...] [SEPARATE b.cpp ...] [LIBS libs]): the OBJECT library terngrad_<library>_<room>, of
# a folder's sources. SEPARATE: those that are never compiled in batches.
function(terngrad_room library room)
  cmake_parse_arguments(ARG "" "" "SOURCES;SEPARATE;LIBS" ${ARGN})
  set(target terngrad_${library}_${room})
  add_library(${target} OBJECT ${ARG_SOURCES})
  terngrad_target_defaults(${target})
  if(ARG_SOURCES)
    terngrad_unity_build(${target} libraries)
  endif()
  target_sources(${target} PRIVATE ${ARG_SEPARATE})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${ARG_LIBS})
  set_property(GLOBAL APPEND PROPERTY TERNGRAD_ROOMS_OF_${library} ${target})
  set(sources ${ARG_SOURCES} ${ARG_SEPARATE})
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL APPEND PROPERTY TERNGRAD_SOURCES_OF_${library} ${sources})
endfunction()

# terngrad_room_objects(variable library): the objects of all rooms of a library.
function(terngrad_room_objects variable library)
  get_property(objects GLOBAL PROPERTY TERNGRAD_ROOMS_OF_${library})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  set(${variable} ${objects} PARENT_SCOPE)
endfunction()

# terngrad_library(name SOURCES ... PUBLIC libs PRIVATE libs): the static library terngrad_<name>, alias terngrad::<name>.
function(terngrad_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(terngrad_${name} STATIC ${ARG_SOURCES})
  add_library(terngrad::${name} ALIAS terngrad_${name})
  set_target_properties(terngrad_${name} PROPERTIES EXPORT_NAME ${name})
  terngrad_target_defaults(terngrad_${name})
  target_include_directories(terngrad_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                     $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/terngrad>)
  target_link_libraries(terngrad_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# terngrad_command(name SOURCES ... LIBS ...): a program a user runs, installed to bin/.
function(terngrad_command name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  terngrad_target_defaults(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  if(TERNGRAD_INSTALL)
    install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()

# terngrad_test(folder LIBS libs NAMES a b ... [SEQUENTIAL c d ...] [ENTRIES option...]): one program <folder>_test from
# <folder>/a_test.cpp ..., registered with ctest by terngrad_test_entries with these options (LABELS unit if there are none).
# SEQUENTIAL: names of tests of code in which one thread runs, or in which parallel loops and trainings meet as in tests of
# others; the thread sanitizer is spared them.
function(terngrad_test folder)
  cmake_parse_arguments(ARG "" "" "LIBS;NAMES;SEQUENTIAL;ENTRIES" ${ARGN})
  if(NOT TERNGRAD_SANITIZE STREQUAL "thread")
    list(APPEND ARG_NAMES ${ARG_SEQUENTIAL})
  endif()
  if(NOT ARG_ENTRIES)
    set(ARG_ENTRIES LABELS unit)
  endif()
  set(sources "")
  foreach(test_name IN LISTS ARG_NAMES)
    list(APPEND sources ${folder}/${test_name}_test.cpp)
  endforeach()
  add_executable(${folder}_test ${sources})
  terngrad_target_defaults(${folder}_test)
  # Libraries under test are fully optimised; the tests themselves compile in two thirds of the time with -O1.
  target_compile_options(${folder}_test PRIVATE $<$<CONFIG:Release>:-O1>)
  terngrad_unity_build(${folder}_test tests)
  target_include_directories(${folder}_test PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${folder}_test PRIVATE terngrad_test_support ${ARG_LIBS})
  terngrad_test_entries(${folder}_test PREFIX ${folder}. SOURCES ${sources} ${ARG_ENTRIES})
endfunction()
