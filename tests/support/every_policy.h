#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "support/plan_checks.h"

namespace pith::test {

/// A test that runs once for every score row with every budget rule; the parameter is the spec.
class EveryPolicy : public testing::TestWithParam<std::string> {
 protected:
  /// The plan for this context, checked.
  static Plan checked_plan(const PolicyContext& context) {
    Plan plan = run_policy(GetParam(), context);
    EXPECT_EQ(plan_fault(plan, context), "") << GetParam();
    return plan;
  }
};

/// A spec as a test's name: only letters, digits and underscores.
inline std::string spec_test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

}  // namespace pith::test
