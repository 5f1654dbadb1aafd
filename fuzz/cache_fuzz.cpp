#include <cstddef>
#include <cstdint>

#include "support/cache_driver.hpp"

/// A difference from the reference leaves as an exception, which the fuzzer reports as a crash.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMostBytes = 4096;  // longer inputs only repeat, slowly
  pith::testing::drive_cache({data, size < kMostBytes ? size : kMostBytes});
  return 0;
}
