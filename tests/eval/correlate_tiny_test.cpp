#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eval/correlate.h"
#include "eval/eviction_masks.h"
#include "eval/metrics.h"
#include "session/session.h"
#include "support/expect_error.h"
#include "support/fidelity_rows.h"
#include "support/tiny_model.h"

namespace pith {
namespace {

constexpr int kVocab = 64;

FidelityRow row(const std::string& id, int context, int continuation, int seed) {
  return test::arithmetic_row(id, context, continuation, seed, kVocab);
}

class Correlate : public ::testing::Test {
 protected:
  std::vector<RowCorrelation> run(const std::vector<FidelityRow>& rows,
                                  const Progress& progress = {}) {
    std::vector<RowCorrelation> out;
    run_correlate(
        model_, rows, options_, [&](RowCorrelation&& r) { out.push_back(std::move(r)); }, progress);
    return out;
  }

  /// Mean KL of what `session` makes of `tokens` after `mask` against `full`.
  double kl_after(Session session, const Plan& mask, std::span<const int32_t> tokens,
                  const std::vector<float>& full) const {
    session.impl().cache.apply(mask);
    const std::vector<float> logits = session.evaluate(tokens);
    double sum = 0;
    for (size_t at = 0; at < logits.size(); at += kVocab) {
      sum += compare_logits(std::span(full).subspan(at, kVocab),
                            std::span(logits).subspan(at, kVocab), std::nullopt)
                 .kl;
    }
    return sum / double(tokens.size());
  }

  test::TinyModel file_;
  Model model_ = Model::load(file_.path());
  CorrelateOptions options_{.policies = {"random(seed=0)+uniform"},
                            .budgets = {"50%", "25%"},
                            .session = {.threads = 1, .n_ctx = 512},
                            .masks = 6,
                            .positions = 12,
                            .yardstick = 8};
};

TEST_F(Correlate, PredictsAlongTheFullCachesOwnWords) {
  options_.own = true;
  FidelityRow r = row("a", 90, 2, 3);  // far fewer than 12 scored positions
  const RowCorrelation own = run({r})[0];
  Session session(model_, options_.session);
  const std::span context(r.context);
  session.prefill(context.first(89));
  std::span<const float> next = session.decode(context.back());
  r.continuation.clear();
  while (r.continuation.size() < 12) {
    r.continuation.push_back(int32_t(std::ranges::max_element(next) - next.begin()));
    next = session.decode(r.continuation.back());
  }
  r.score.assign(12, 1);
  options_.own = false;
  EXPECT_EQ(own.kl, run({r})[0].kl);
}

TEST_F(Correlate, AgreesWithTheProtocolStepByStep) {
  FidelityRow r = row("a", 90, 40, 3);
  for (size_t j = 0; j < 40; j += 3) r.score[j] = 0;  // 12 scored positions are the first 18 but 6
  const RowCorrelation result = run({r})[0];

  Session base(model_, options_.session);
  base.prefill(r.context);
  Session head(model_, options_.session);
  const auto before = std::span(r.context).first(82), tail = std::span(r.context).last(8);
  head.prefill(before);
  const auto full_tail = head.fork().evaluate(tail);
  const auto input = base.impl().input_of(Policy::parse("random"), 90, fit_protection(90, 4), {});
  const std::vector<int64_t> kept{180, 90};
  const auto masks = draw_masks(input.context, kept, {}, 6, 1);
  ASSERT_EQ(result.kl.size(), 6U);
  for (size_t m = 0; m < 6; ++m) {
    Session session = base.fork();
    session.impl().cache.apply(masks[m]);
    const auto tokens = std::span(r.continuation).first(18);
    const auto p = base.fork().evaluate(tokens), q = session.evaluate(tokens);
    double sum = 0;
    for (size_t j = 0; j < 18; ++j) {
      if (r.score[j] == 0) continue;
      sum += compare_logits(std::span(p).subspan(j * kVocab, kVocab),
                            std::span(q).subspan(j * kVocab, kVocab), std::nullopt)
                 .kl;
    }
    EXPECT_NEAR(result.kl[m], sum / 12, 1e-9 * sum);

    Plan early = masks[m];
    for (RowPlan& plan : early.rows) std::erase_if(plan.keep, [](int32_t i) { return i >= 82; });
    const double tail_kl = kl_after(head.fork(), early, tail, full_tail);
    EXPECT_NEAR(result.cost[1][m], tail_kl, 1e-3 * tail_kl);
  }
}

TEST_F(Correlate, EveryPolicyRatesEveryMask) {
  std::vector<std::string> notes;
  options_.policies =
      rated_policies(std::vector<std::string>{"behavior", "snapkv", "knorm"}, notes);
  options_.masks = 24;
  const auto results = run({row("a", 90, 12, 3), row("b", 120, 12, 5), row("a", 90, 12, 3)});
  ASSERT_EQ(results.size(), 3U);
  ASSERT_EQ(results[0].cost.size(), 5U);  // three policies, random, the yardstick
  EXPECT_EQ(rater_names(options_).size(), 5U);
  for (const RowCorrelation& r : results) {
    for (const auto& cost : r.cost) {
      EXPECT_EQ(cost.size(), 24U);
      for (const double c : cost) EXPECT_TRUE(std::isfinite(c) && c >= 0);
    }
    for (const double kl : r.kl) EXPECT_GT(kl, 0);
  }
  EXPECT_EQ(results[0].kl, results[2].kl);
  for (size_t m = 0; m < 24; ++m) {
    for (size_t p = 0; p < 5; ++p) {
      EXPECT_NEAR(results[2].cost[p][m], results[0].cost[p][m], 1e-5 * results[0].cost[p][m]);
    }
  }
  EXPECT_NE(results[0].kl, results[1].kl);
}

TEST_F(Correlate, HeadsThatKeepOnlyTheLastPositionsAreMeasuredToo) {
  options_.session.protection = {.sinks = 0, .window = 22};
  options_.yardstick = 30;
  const auto results = run({row("a", 90, 12, 3)});
  for (const double kl : results[0].cost[1]) EXPECT_GT(kl, 0);
}

/// Of 50 generated entries a head the newest 10 stay and half of the others; nothing of the prompt
/// goes, so that a tail that starts with it is as before.
TEST_F(Correlate, GenerationRowsKeepTheirPrompt) {
  FidelityRow r = row("a", 90, 12, 3);
  r.prompt_tokens = 40;
  options_.session.protection.window = 10;
  options_.yardstick = 50;
  const RowCorrelation result = run({r})[0];
  for (const double kl : result.kl) EXPECT_GT(kl, 0);
  for (const double kl : result.cost[1]) EXPECT_NEAR(kl, 0, 1e-9);
}

TEST_F(Correlate, WhatDrawsAtRandomIsAddedAndWhatKeepsAllIsRefused) {
  std::vector<std::string> notes;
  const std::vector<std::string> twice{"knorm", "knorm+uniform"}, random{"random(seed=3)"};
  EXPECT_EQ(rated_policies(twice, notes),
            (std::vector<std::string>{"knorm+uniform", "random(seed=0)+uniform"}));
  EXPECT_EQ(notes.size(), 1U);
  EXPECT_EQ(rated_policies(random, notes).size(), 1U);
  EXPECT_EQ(notes.size(), 1U);
  test::expect_error(ErrorCode::usage, "full evicts nothing",
                     [&] { rated_policies(std::vector<std::string>{"full"}, notes); });
}

TEST_F(Correlate, StoppedRunsKeepWholeRows) {
  std::vector<RowCorrelation> kept;
  const std::vector<FidelityRow> rows{row("a", 80, 12, 3), row("b", 80, 12, 4)};
  test::expect_error(ErrorCode::interrupted, "interrupted", [&] {
    run_correlate(
        model_, rows, options_, [&](RowCorrelation&& r) { kept.push_back(std::move(r)); },
        [](double share) { return share < 0.8; });
  });
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].kl.size(), 6U);
}

TEST_F(Correlate, RefusesRowsAndBudgetsThatItCannotUse) {
  test::expect_error(ErrorCode::usage, "row short has 5 scored positions",
                     [&] { run({row("short", 90, 5, 3)}); });
  test::expect_error(ErrorCode::usage, "row tiny has a context of 8 tokens",
                     [&] { run({row("tiny", 8, 12, 3)}); });
  options_.budgets = {"50%", "100%"};
  test::expect_error(ErrorCode::usage, "100% evicts nothing", [&] { run({row("a", 90, 12, 3)}); });
}

}  // namespace
}  // namespace pith
