#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "eval/metrics.h"
#include "session/trial.h"
#include "support/expect_error.h"
#include "support/logits.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr int kPrompt = 300;
const TinyModelOptions kOptions{.n_layer = 3, .n_head = 6, .n_head_kv = 2, .head_dim = 32};

class BudgetSearch : public testing::Test {
 protected:
  Session session(Protection protection = {-1, -1}) const {
    return Session(model, {.threads = 1,
                           .n_ctx = 1000,
                           .k_type = KvType::f32,
                           .v_type = KvType::f32,
                           .protection = protection});
  }

  /// After the prompt, observed for a policy.
  Session read(const std::string& policy, Protection protection = {-1, -1}) const {
    Session s = session(protection);
    s.prefill(prompt, needs_of(policy));
    return s;
  }

  /// The mean KL over `last` of `before` compressed, against itself: what a trial is to measure.
  double plain_kl(const Session& before, const std::string& policy,
                  const std::string& budget) const {
    Session full = before.fork(), compressed = before.fork();
    compressed.compress(policy, budget);
    const auto p = full.evaluate(last), q = compressed.evaluate(last);
    const auto width = size_t(kOptions.n_vocab);
    std::vector<double> kl;
    for (size_t at = 0; at < p.size(); at += width) {
      kl.push_back(compare_logits(std::span(p).subspan(at, width), std::span(q).subspan(at, width),
                                  std::nullopt)
                       .kl);
    }
    EXPECT_EQ(kl.size(), size_t(kTrialTokens));
    return mean(kl);
  }

  /// Every budget that a search tries, against the KL measured from `before` in the plain way.
  void expect_plain(Session& s, const Session& before, const std::string& policy) const {
    const Receipt receipt = s.compress_within(policy, 0.01);
    ASSERT_TRUE(receipt.max_kl && !receipt.max_kl->tried.empty()) << policy;
    for (const TriedBudget& tried : receipt.max_kl->tried) {
      const double plain = plain_kl(before, policy, tried.budget);
      EXPECT_GT(plain, 0) << policy;
      EXPECT_NEAR(tried.kl, plain, 1e-3 * plain) << policy << " at " << tried.budget;
    }
  }

  TinyModel tiny{kOptions};
  Model model = Model::load(tiny.path());
  std::vector<int32_t> prompt = random_tokens(kPrompt, kOptions.n_vocab, 7);
  std::span<const int32_t> first = std::span(prompt).first(kPrompt - kTrialTokens);
  std::span<const int32_t> last = std::span(prompt).last(kTrialTokens);
};

TEST_F(BudgetSearch, AHugeBoundTakesTheSmallestBudget) {
  Session s = read("snapkv");
  const Receipt receipt = s.compress_within("snapkv", 1e6);
  EXPECT_EQ(receipt.max_kl->budget, "2%");
  EXPECT_EQ(receipt.budget_requested, "2%");
  EXPECT_EQ(receipt.entries_kept, kPrompt * 6 / 50);
  EXPECT_EQ(receipt.max_kl->tried.size(), 4U);
  EXPECT_EQ(receipt.max_kl->tried.back().budget, "2%");
  EXPECT_EQ(receipt.max_kl->measured, receipt.max_kl->tried.back().kl);
  EXPECT_EQ(receipt.max_kl->asked, 1e6);
  EXPECT_EQ(receipt.max_kl->tokens, 64);
}

TEST_F(BudgetSearch, ATinyBoundKeepsTheWholeCacheAndSaysSo) {
  Session s = read("snapkv");
  const auto before = s.fork().evaluate(last);
  const Receipt receipt = s.compress_within("snapkv", 1e-300);
  EXPECT_EQ(receipt.entries_kept, receipt.entries_full);
  EXPECT_EQ(receipt.max_kl->budget, "100%");
  EXPECT_EQ(receipt.max_kl->measured, 0);
  EXPECT_EQ(receipt.max_kl->tried.back().budget, "90%");
  EXPECT_THAT(receipt.notes, Contains(HasSubstr("the whole cache stays")));
  EXPECT_EQ(s.evaluate(last), before);
}

TEST_F(BudgetSearch, MeasuresWhatTeacherForcingOverAShorterPromptDoes) {
  for (const std::string policy :
       {"streaming", "snapkv", "behavior", "h2o", "expected", "snapkv(source=lookahead)",
        "behavior+smooth(kernel=5)+shares", "snapkv+weights(queries=tail)", "random+inverse"}) {
    Session before = session();
    before.prefill(first, needs_of(policy));
    Session s = read(policy);
    expect_plain(s, before, policy);
  }
}

/// Of queries of the prompt a trial reads those that were observed of the whole one.
TEST_F(BudgetSearch, MeasuresWhatTeacherForcingOverAForkDoes) {
  for (const std::string policy : {"kvzip(source=future)", "snapkv+weights", "pith", "snapkv"}) {
    Session s = read(policy);
    Session before = s.fork();
    const int tail = needs_of(policy).tail;
    before.trim(int32_t(first.size()) - tail);
    if (tail > 0) before.prefill(first.last(size_t(tail)), needs_of(policy));
    expect_plain(s, before, policy);
  }
}

TEST_F(BudgetSearch, TheBudgetBeforeTheChosenOneFailed) {
  const Session s = read("snapkv");
  for (const double bound : {0.001, 0.01, 0.03, 0.1, 0.3, 1.0}) {
    const Receipt receipt = s.fork().compress_within("snapkv", bound);
    const MaxKlReceipt& found = *receipt.max_kl;
    EXPECT_LE(found.measured, bound);
    const auto all = trial_budgets();
    const auto chosen = std::ranges::find(all, found.budget);
    if (chosen == all.begin()) continue;
    const auto failed = std::ranges::find(found.tried, *(chosen - 1), &TriedBudget::budget);
    ASSERT_NE(failed, found.tried.end()) << bound;
    EXPECT_GT(failed->kl, bound);
  }
}

TEST_F(BudgetSearch, BudgetsAscendByAtMostAHalf) {
  double before = 2;
  for (const std::string& budget : trial_budgets()) {
    const double share = std::stod(budget);
    EXPECT_LE(share, 1.5 * before);
    EXPECT_GE(share, before);
    before = share;
  }
}

TEST_F(BudgetSearch, WhatLeavesNoRoomForTheProtectedIsNotTried) {
  Session s = read("snapkv", {.sinks = 4, .window = 40});
  const Receipt receipt = s.compress_within("snapkv", 1e6);
  EXPECT_EQ(receipt.max_kl->budget, "20%") << "44 of 236 tokens are protected";
  EXPECT_THAT(receipt.notes, Contains(HasSubstr("budgets up to 14% were not tried")));
}

TEST_F(BudgetSearch, NoRoomAtAllKeepsTheWholeCache) {
  Session s = read("snapkv", {.sinks = 4, .window = 230});
  const Receipt receipt = s.compress_within("snapkv", 1e6);
  EXPECT_EQ(receipt.entries_kept, receipt.entries_full);
  EXPECT_TRUE(receipt.max_kl->tried.empty());
  EXPECT_THAT(receipt.notes, Contains(HasSubstr("budgets up to 90% were not tried")));
}

TEST_F(BudgetSearch, FullTriesNothing) {
  Session s = read("full");
  const Receipt receipt = s.compress_within("full", 0.1);
  EXPECT_EQ(receipt.entries_kept, receipt.entries_full);
  EXPECT_TRUE(receipt.max_kl->tried.empty());
}

TEST_F(BudgetSearch, ALaterCompressionToABudgetHasNoSearch) {
  Session s = read("snapkv");
  s.compress_within("snapkv", 1e6);
  EXPECT_TRUE(s.receipt().max_kl);
  s.prefill(last);
  EXPECT_FALSE(s.compress("snapkv", "50%").max_kl);
}

/// Stopped at one call after another until there is none left to stop at.
TEST_F(BudgetSearch, InterruptionLosesNothing) {
  for (const std::string policy : {"snapkv", "h2o", "snapkv(source=lookahead)+weights"}) {
    Session s = read(policy);
    const auto before = s.fork().evaluate(last);
    int allowed = 0;
    for (bool stopped = true; stopped; allowed += 5) {
      Session fork = s.fork();
      int calls = 0;
      stopped = false;
      try {
        fork.compress_within(policy, 0.05, [&](double) { return calls++ < allowed; });
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::interrupted);
        EXPECT_FALSE(fork.receipt().max_kl);
        EXPECT_EQ(fork.receipt().entries_kept, kPrompt * 6);
        stopped = true;
      }
      if (!stopped) continue;
      EXPECT_EQ(fork.evaluate(last), before) << allowed;
    }
    EXPECT_GT(allowed, 10);
    EXPECT_EQ(s.evaluate(last), before);
  }
}

TEST_F(BudgetSearch, ProgressGoesUpToOne) {
  for (const std::string policy : {"snapkv", "snapkv(source=lookahead)"}) {
    Session s = read(policy);
    std::vector<double> shares;
    s.compress_within(policy, 0.05, [&](double share) {
      shares.push_back(share);
      return true;
    });
    EXPECT_TRUE(std::ranges::is_sorted(shares));
    EXPECT_EQ(shares.back(), 1);
  }
}

TEST_F(BudgetSearch, BadRequestsAreRefused) {
  Session s = read("snapkv");
  for (const double bound : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_error(ErrorCode::usage, "a number above 0", [&] { s.compress_within("snapkv", bound); });
  }
  expect_error(ErrorCode::usage, "queries of the whole prompt",
               [&] { s.compress_within("h2o", 0.1); });
  s.compress("snapkv", "50%");
  expect_error(ErrorCode::usage, "compressed before", [&] { s.compress_within("snapkv", 0.1); });
}

TEST_F(BudgetSearch, AShortPromptIsRefused) {
  for (const int length : {1, kTrialTokens, kLeastTokensOfTrial - 1, kLeastTokensOfTrial}) {
    Session s = session();
    s.prefill(std::span(prompt).first(size_t(length)));
    const auto search = [&] { return s.compress_within("snapkv", 1e6); };
    if (length < kLeastTokensOfTrial) {
      expect_error(ErrorCode::usage, "at least 128 tokens, and there are", search);
    } else {
      EXPECT_EQ(search().max_kl->budget, "2%");
    }
  }
}

}  // namespace
}  // namespace pith::test
