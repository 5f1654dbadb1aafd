#include <gtest/gtest.h>

#include <cmath>

#include "policy/policy.h"
#include "support/plan_checks.h"

namespace pith::test {
namespace {

/// Five entries of one head, of which the first and the last are protected.
class MaskCosts : public testing::Test {
 protected:
  MaskCosts()
      : synthetic_(make_synthetic({.shape = {.n_layer = 1,
                                             .n_head = 1,
                                             .n_head_kv = 1,
                                             .head_dim = 2,
                                             .n_embd = 1,
                                             .n_vocab = 1},
                                   .lengths = {5}})),
        context_(synthetic_.context(4)) {
    context_.protection = {.sinks = 1, .window = 1};
  }

  std::vector<double> costs(std::vector<float> scores) const {
    std::vector<Plan> masks;
    for (const std::vector<int32_t>& keep : kept_) {
      masks.emplace_back().rows.push_back({.keep = keep, .log_weight = {}});
    }
    const Scores all{.rows = {std::move(scores)}, .notes = {}, .scratch_peak = 0};
    return Policy::parse("knorm").mask_costs(masks, all, context_);
  }

  /// What three masks keep.
  const std::vector<std::vector<int32_t>> kept_{{0, 1, 2, 3, 4}, {0, 2, 4}, {0, 4}};
  Synthetic synthetic_;
  PolicyContext context_;
};

TEST_F(MaskCosts, AreTheWorthOfAllThatIsEvicted) {
  EXPECT_EQ(costs({90, 1, 2, 4, 90}), (std::vector<double>{0, 5, 7}));
}

TEST_F(MaskCosts, CountFromTheLeastWhereItIsNegative) {
  EXPECT_EQ(costs({-90, -3, -1, 2, -90}), (std::vector<double>{0, 5, 7}));
}

TEST_F(MaskCosts, AnEntryThatMustStayCountsAsTheHighestOther) {
  EXPECT_EQ(costs({0, 1, INFINITY, 4, 0}), (std::vector<double>{0, 5, 9}));
}

}  // namespace
}  // namespace pith::test
