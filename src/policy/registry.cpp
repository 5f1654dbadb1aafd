#include <array>

#include "policy/budgets/budgets.h"
#include "policy/policies/policies.h"
#include "policy/policy.h"

namespace pith {

std::span<const ScoreRow> score_rows() {
  static const std::array rows{full_row(), random_row(), streaming_row(), snapkv_row(),
                               behavior_row()};
  return rows;
}

std::span<const BudgetRow> budget_rows() {
  static const std::array rows{uniform_row(), global_row()};
  return rows;
}

}  // namespace pith
