# Read by ctest: every gtest suite of ${program} is a test ${name}.SUITE. A test for each case would load libtorch for
# each.
set(list ${program}.suites)
if(NOT EXISTS ${program})
  add_test(${name}_NOT_BUILT ${program})
  return()
endif()
if(NOT EXISTS ${list} OR NOT ${list} IS_NEWER_THAN ${program})
  execute_process(COMMAND ${program} --gtest_list_tests OUTPUT_VARIABLE cases RESULT_VARIABLE failed TIMEOUT 60)
  if(failed)
    message(FATAL_ERROR "${program} --gtest_list_tests: ${failed}\n${cases}")
  endif()
  file(WRITE ${list} "${cases}")
endif()
file(STRINGS ${list} suites REGEX "^[^ ]+\\.( |$)")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "\\.( .*)?$" "" suite "${suite}")
  add_test(${name}.${suite} ${program} --gtest_filter=${suite}.*)
  # Skipped is a suite of which nothing ran and nothing failed.
  set_tests_properties(${name}.${suite} PROPERTIES ${properties}
    SKIP_REGULAR_EXPRESSION "\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\][^\n]*\n)+$")
endforeach()
