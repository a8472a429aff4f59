# What every target of the project shares.

add_library(tandem_options INTERFACE)
target_compile_features(tandem_options INTERFACE cxx_std_20)
target_compile_options(tandem_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # GCC 12 sees overlaps in std::string that are not there
if(TANDEM_WARNINGS_AS_ERRORS)
  target_compile_options(tandem_options INTERFACE -Werror)
endif()

# tandem_test(NAME name LABEL unit|model|faults|jit|operator|python|gpu SOURCES ... [LIBRARIES ...] [TIMEOUT seconds])
# A GoogleTest executable that is one CTest test.
function(tandem_test)
  cmake_parse_arguments(arg "" "NAME;LABEL;TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE tandem_options ${arg_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set_tests_properties(${arg_NAME} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
endfunction()
