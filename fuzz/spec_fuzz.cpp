#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "policy/policy.h"

namespace {

/// A spec that parses is written out in a form that parses to itself.
void parse_policy(std::string_view text) {
  try {
    const auto policy = pith::Policy::parse(text);
    if (pith::Policy::parse(policy.spec()).spec() != policy.spec()) {
      throw std::logic_error("the spec changed: " + policy.spec());
    }
  } catch (const pith::Error&) {  // what most inputs deserve
  }
}

/// A budget that parses keeps between nothing and all.
void parse_budget(std::string_view text) {
  try {
    const auto budget = pith::Budget::parse(text);
    const int64_t total = budget.total_entries(INT64_MAX, INT32_MAX, 1);
    if (total < 1 || budget.total_entries(1000, 90, 256) > 1000) {
      throw std::logic_error("the budget left its bounds: " + budget.text());
    }
  } catch (const pith::Error&) {  // what most inputs deserve
  }
}

}  // namespace

/// Anything but pith::Error leaves as an exception, which the fuzzer reports as a crash.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse_policy(text);
  parse_budget(text);
  return 0;
}
