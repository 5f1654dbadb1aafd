#include "support/plan_checks.h"

#include <gtest/gtest.h>

#include <functional>

namespace pith::test {

namespace {

/// The fault that the checker finds in a good plan of 4 rows of 10 entries, broken by `harm`.
std::string fault_after(const std::function<void(Plan&)>& harm) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {10}});
  PolicyContext context = synthetic.context(20);
  context.protection = {.sinks = 1, .window = 1};
  Plan plan = run_policy("streaming", context);
  EXPECT_EQ(plan_fault(plan, context), "");
  harm(plan);
  return plan_fault(plan, context);
}

TEST(PlanChecks, SeeEveryKindOfHarm) {
  using Harm = std::function<void(Plan&)>;
  const std::vector<std::pair<Harm, std::string>> cases{
      {[](Plan& plan) { plan.rows.pop_back(); }, "rows are missing"},
      {[](Plan& plan) { plan.rows[1].keep.clear(); }, "row 1 is empty"},
      {[](Plan& plan) { plan.rows[1].keep.back() = 10; }, "row 1 keeps an entry that is not there"},
      {[](Plan& plan) { plan.rows[1].keep.front() = -1; },
       "row 1 keeps an entry that is not there"},
      {[](Plan& plan) { std::swap(plan.rows[2].keep[1], plan.rows[2].keep[2]); },
       "row 2 is not ascending"},
      {[](Plan& plan) { plan.rows[2].keep[1] = plan.rows[2].keep[2]; }, "row 2 is not ascending"},
      {[](Plan& plan) { plan.rows[3].keep.front() = 1; }, "row 3 evicts protected entry 0"},
      {[](Plan& plan) { plan.rows[3].keep.back() = 8; }, "row 3 is not ascending"},
      {[](Plan& plan) { plan.rows[3].keep.pop_back(); }, "row 3 evicts protected entry 9"},
      {[](Plan& plan) { plan.rows[0].log_weight = {0}; },
       "row 0 has log-weights of another length"},
      {[](Plan& plan) { plan.rows[0].keep.erase(plan.rows[0].keep.begin() + 1); },
       "keeps 19 entries instead of 20"}};
  for (const auto& [harm, fault] : cases) EXPECT_EQ(fault_after(harm), fault);
}

}  // namespace

}  // namespace pith::test
