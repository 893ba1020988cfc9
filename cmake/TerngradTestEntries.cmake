# How the cases of GoogleTest programs become entries of ctest, and the labels of all entries (tests/README.md).

option(TERNGRAD_TEST_SHARDS "Register GoogleTest programs as shards of many cases instead of one ctest entry for each case" ON)

# terngrad_count_cases(variable source...): about how many cases the sources have; one with parameters counts once.
function(terngrad_count_cases variable)
  set(count 0)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    file(STRINGS ${source} lines REGEX "^(TYPED_)?TEST(_F|_P)?\\(")
    list(LENGTH lines num_lines)
    math(EXPR count "${count} + ${num_lines}")
  endforeach()
  set(${variable} ${count} PARENT_SCOPE)
endfunction()

# terngrad_test_entries(program PREFIX prefix [SOURCES source...] [SHARDS n] [CASES n] [SINGLY] [FILTER filter]
#                       [ENVIRONMENT name=value] [COST cost] LABELS label...)
# registers the cases of a program as <prefix>shard_1, ...: as many shards as its SOURCES have CASES (50) cases, or SHARDS (1). How
# many there are decides no result: each case is in one of them. SINGLY: one entry for each case, as for all programs with
# TERNGRAD_TEST_SHARDS=OFF; for tests that start, kill or time processes. FILTER: a filter of GoogleTest. COST: where ctest does
# not know from an earlier run how long entries take, those of the highest start first.
function(terngrad_test_entries program)
  cmake_parse_arguments(ARG "SINGLY" "PREFIX;SHARDS;CASES;FILTER;ENVIRONMENT;COST" "SOURCES;LABELS" ${ARGN})
  foreach(default IN ITEMS "SHARDS 1" "CASES 50" "FILTER *" "COST 0")
    string(REPLACE " " ";" default "${default}")
    list(GET default 0 name)
    if(NOT DEFINED ARG_${name})
      list(GET default 1 ARG_${name})
    endif()
  endforeach()
  set(labels ${program} ${ARG_LABELS})
  if(NOT "slow" IN_LIST labels)
    list(APPEND labels fast)
  endif()
  if(ARG_SINGLY OR NOT TERNGRAD_TEST_SHARDS OR NOT TERNGRAD_PYTHON)
    set(environment "")
    if(ARG_ENVIRONMENT)
      set(environment ENVIRONMENT ${ARG_ENVIRONMENT})
    endif()
    string(MAKE_C_IDENTIFIER "${program}_${ARG_PREFIX}" test_list)
    gtest_discover_tests(
      ${program}
      TEST_PREFIX "${ARG_PREFIX}"
      TEST_LIST ${test_list}
      TEST_FILTER "${ARG_FILTER}"
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      DISCOVERY_TIMEOUT 120
      PROPERTIES TIMEOUT 1200 COST ${ARG_COST} ${environment})
    # A list of labels does not survive among these properties; ctest sets it for the list of tests that they leave.
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${test_list}_labels.cmake)
    file(WRITE ${file} "if(${test_list})\n  set_tests_properties(\${${test_list}} PROPERTIES LABELS \"${labels}\")\nendif()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
    return()
  endif()
  if(ARG_SOURCES)
    terngrad_count_cases(num_cases ${ARG_SOURCES})
    math(EXPR ARG_SHARDS "(${num_cases} + ${ARG_CASES} - 1) / ${ARG_CASES}")
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(index RANGE ${last})
    math(EXPR number "${index} + 1")
    set(name ${ARG_PREFIX}shard_${number})
    add_test(
      NAME ${name}
      COMMAND ${TERNGRAD_PYTHON} ${PROJECT_SOURCE_DIR}/tests/support/run_shard.py --results
              ${PROJECT_BINARY_DIR}/Testing/cases/${name}.json "--filter=${ARG_FILTER}" --shards ${ARG_SHARDS} --index ${index}
              $<TARGET_FILE:${program}>
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    # The script ends by itself after 1,700 s at most.
    set_tests_properties(${name} PROPERTIES TIMEOUT 1800 SKIP_RETURN_CODE 77 COST ${ARG_COST} LABELS "${labels}"
                                            ENVIRONMENT "${ARG_ENVIRONMENT}")
  endforeach()
endfunction()

# terngrad_label_tests(label regex): adds a label to the entries of this folder whose names match.
function(terngrad_label_tests label regex)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(name IN LISTS tests)
    if(name MATCHES "${regex}")
      set_property(TEST ${name} APPEND PROPERTY LABELS ${label})
    endif()
  endforeach()
endfunction()

# terngrad_label_fast_tests(): the entries of this folder that are not labelled slow are fast.
function(terngrad_label_fast_tests)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(name IN LISTS tests)
    get_property(labels TEST ${name} PROPERTY LABELS)
    if(NOT "slow" IN_LIST labels AND NOT "fast" IN_LIST labels)
      set_property(TEST ${name} APPEND PROPERTY LABELS fast)
    endif()
  endforeach()
endfunction()
