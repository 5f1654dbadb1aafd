#pragma once

#include <string>
#include <vector>

#include "pith/policy.hpp"
#include "support/synthetic.h"

namespace pith::test {

/// What is wrong with a plan for this context, or "" where it keeps every promise: one row a
/// (layer, KV head), entries ascending, unique and in range, none empty, protected ones kept, exact
/// total.
std::string plan_fault(const Plan& plan, const PolicyContext& context);

/// Every score row of the registry that evicts, with every budget rule, with every wrapper
/// that it takes, and once more for each choice that one of its knobs offers besides the default.
std::vector<std::string> evicting_specs();

/// Scores and selects with the policy of `spec`.
Plan run_policy(const std::string& spec, const PolicyContext& context);

/// Kept entries of all rows, to compare plans.
std::vector<std::vector<int32_t>> kept(const Plan& plan);

}  // namespace pith::test
