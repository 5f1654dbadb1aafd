#pragma once

#include <vector>

#include "policy/policy.h"
#include "policy/protection.h"

/// One function a budget rule, each defined in the file of its name; registry.cpp lists them.
namespace pith {

BudgetRow uniform_row();
BudgetRow global_row();
BudgetRow ada_row();
BudgetRow pyramid_row();
BudgetRow shares_row();

/// Equal shares of `total` within the limits of each row [n_rows]; what a short row leaves goes to
/// the others.
std::vector<int> uniform_quotas(const RowLimits& limits, int64_t total);

}  // namespace pith
