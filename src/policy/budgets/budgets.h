#pragma once

#include "policy/policy.h"

/// One function a budget rule, each defined in the file of its name; registry.cpp lists them.
namespace pith {

BudgetRow uniform_row();
BudgetRow global_row();

}  // namespace pith
