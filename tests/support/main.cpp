// The main of every test program: tests find Python and the source tree whether or not ctest starts them.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  ::setenv("EASYDEL_PYTHON", EASYDEL_PYTHON, /*overwrite=*/0);
  ::setenv("EASYDEL_SOURCE_DIR", EASYDEL_SOURCE_DIR, 0);
  ::setenv("EASYDEL_BINARY_DIR", EASYDEL_BINARY_DIR, 0);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
