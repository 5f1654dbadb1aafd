#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "pith/risk.hpp"
#include "session/session.h"
#include "support/expect_error.h"
#include "support/logits.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

using ::testing::HasSubstr;

constexpr int kPrompt = 120;
const TinyModelOptions kOptions{.n_layer = 2, .n_head = 6, .n_head_kv = 2, .head_dim = 32};
constexpr int kHeads = 4;

class TinyRisk : public testing::Test {
 protected:
  /// After the prompt, with what `options` need of it.
  Session read(const RiskOptions& options, std::optional<double> most = {}, int threads = 2) const {
    Session s(model, {.threads = threads,
                      .n_ctx = 1000,
                      .k_type = KvType::f32,
                      .v_type = KvType::f32,
                      .max_risk = most});
    s.prefill(prompt, needs_of(options));
    return s;
  }

  Risk measured(const RiskOptions& options) const {
    Session s = read(options);
    return measure_risk(s, options);
  }

  TinyModel tiny{kOptions};
  Model model = Model::load(tiny.path());
  std::vector<int32_t> prompt = random_tokens(kPrompt, kOptions.n_vocab, 7);
};

std::vector<HeadRisk> heads_of(const Risk& risk) {
  std::vector<HeadRisk> out;
  for (const auto& layer : risk.layers) out.insert(out.end(), layer.begin(), layer.end());
  return out;
}

std::vector<std::vector<int32_t>> kept_positions(Session& s) {
  std::vector<std::vector<int32_t>> out;
  for (int row = 0; row < kHeads; ++row) {
    const auto positions = s.impl().cache.positions(row / 2, row % 2);
    out.emplace_back(positions.begin(), positions.end());
  }
  return out;
}

TEST_F(TinyRisk, EveryHeadHasItsFigures) {
  const RiskOptions options{.policy = "snapkv", .budgets = {"50%", "25%", "10%"}};
  const Risk risk = measured(options);
  EXPECT_THAT(risk.policy, HasSubstr("snapkv(source=tail"));
  ASSERT_EQ(heads_of(risk).size(), size_t(kHeads));
  for (const HeadRisk& head : heads_of(risk)) {
    EXPECT_EQ(head.entries, kPrompt);
    EXPECT_GT(head.tr, 0);
    ASSERT_EQ(head.eigenvalues.size(), 32U);
    EXPECT_TRUE(std::ranges::is_sorted(head.eigenvalues, std::ranges::greater()));
    ASSERT_EQ(head.at.size(), 3U);
    constexpr std::array kKept{kPrompt / 2, kPrompt / 4, kPrompt / 10};
    for (size_t b = 0; b < 3; ++b) {
      const BudgetRisk& at = head.at[b];
      EXPECT_EQ(at.entries, kKept[b]);
      EXPECT_EQ(at.kept, at.entries);  // shared evenly
      EXPECT_NEAR(at.bounds.agnostic, head.tr / at.entries, 1e-9);
      EXPECT_NEAR(at.bounds.aware, at.tail_share * head.tr / at.entries, 1e-9);
      EXPECT_NEAR(at.bounds.streaming,
                  std::log(2 + double(kPrompt) / at.entries) * at.bounds.agnostic, 1e-9);
      EXPECT_GT(at.plan_error, 0);
      EXPECT_GT(at.evicted_mass, b == 0 ? 0 : head.at[b - 1].evicted_mass);
      EXPECT_LT(at.evicted_mass, 1);
      EXPECT_GE(at.tail_share, b == 0 ? 0 : head.at[b - 1].tail_share);
      EXPECT_LE(at.tail_share, 1);
    }
  }
}

/// The leading eigenvalues and the tail make the trace.
TEST_F(TinyRisk, TailsAreExact) {
  RiskOptions options{.policy = "streaming", .budgets = {"25%"}, .eigenvalues = kPrompt};
  for (const HeadRisk& head : heads_of(measured(options))) {
    double first = 0;
    for (int k = 0; k < head.at[0].entries / 3; ++k) first += head.eigenvalues[size_t(k)];
    EXPECT_NEAR(head.at[0].tail_share, 1 - first / head.tr, 1e-5);
  }
}

/// Weights that were fitted to the same queries, hardly sketched: where attention is flat, as in a
/// random model, a sketch of the many profiles that go is mostly noise.
TEST_F(TinyRisk, WeightsLowerThePlansError) {
  const RiskOptions plain{.policy = "snapkv"},
      weighed{.policy = "snapkv+weights(queries=future,buckets=256)"};
  double without = 0, with = 0;
  for (const HeadRisk& head : heads_of(measured(plain))) without += head.at[0].plan_error;
  for (const HeadRisk& head : heads_of(measured(weighed))) with += head.at[0].plan_error;
  EXPECT_LT(with, without);
}

TEST_F(TinyRisk, TheCacheStaysAndThreadsDoNotMatter) {
  const RiskOptions options{.policy = "snapkv", .budgets = {"25%"}};
  Session one = read(options, {}, 1), two = read(options, {}, 2);
  const Risk a = measure_risk(one, options), b = measure_risk(two, options);
  for (int h = 0; h < kHeads; ++h) {
    const HeadRisk one_head = heads_of(a)[size_t(h)], two_head = heads_of(b)[size_t(h)];
    const double rounding = 1e-5 * one_head.tr;
    for (size_t k = 0; k < one_head.eigenvalues.size(); ++k) {
      EXPECT_NEAR(one_head.eigenvalues[k], two_head.eigenvalues[k], rounding);
    }
    EXPECT_NEAR(one_head.at[0].plan_error, two_head.at[0].plan_error, 1e-4);
  }
  EXPECT_EQ(one.next_position(), kPrompt);
  Session untouched = read(options);
  one.compress("snapkv", "25%");
  untouched.compress("snapkv", "25%");
  EXPECT_EQ(kept_positions(one), kept_positions(untouched));
}

/// Texts ask at the positions behind the prompt, and leave nothing there.
TEST_F(TinyRisk, TextsAskAfterThePrompt) {
  RiskOptions options{.policy = "streaming", .queries = RiskQueries::file};
  options.texts = {random_tokens(9, 64, 3), random_tokens(30, 64, 4)};
  Session s = read(options);
  const Risk both = measure_risk(s, options);
  EXPECT_EQ(s.next_position(), kPrompt);
  EXPECT_EQ(s.impl().cache.total_entries(), kPrompt * kHeads);
  EXPECT_GT(heads_of(both)[0].tr, 0);
  options.texts.pop_back();
  EXPECT_NE(heads_of(measure_risk(s, options))[0].tr, heads_of(both)[0].tr);
}

TEST_F(TinyRisk, ABudgetOfTheWholeCacheErrsByNothing) {
  const Risk risk = measured({.policy = "snapkv", .budgets = {"100%", "5000"}});
  for (const HeadRisk& head : heads_of(risk)) {
    for (const BudgetRisk& at : head.at) {
      EXPECT_EQ(at.entries, kPrompt);
      EXPECT_EQ(at.kept, kPrompt);
      EXPECT_EQ(at.plan_error, 0);
      EXPECT_EQ(at.evicted_mass, 0);
    }
  }
  EXPECT_THAT(risk.notes, ::testing::Contains("the budget of 5000 holds the whole cache"));
}

TEST_F(TinyRisk, AFewTokensAreMeasuredToo) {
  for (const int count : {1, 2, 3}) {
    Session s = read({});
    s.trim(0);
    const RiskOptions options{
        .policy = "streaming", .budgets = {"1"}, .queries = RiskQueries::tail};
    s.prefill(std::span(prompt).first(size_t(count)), needs_of(options));
    for (const HeadRisk& head : heads_of(measure_risk(s, options))) {
      EXPECT_EQ(head.entries, count);
      EXPECT_EQ(head.at[0].entries, 1);
      EXPECT_TRUE(std::isfinite(head.at[0].plan_error) && std::isfinite(head.at[0].tail_share));
    }
  }
}

TEST_F(TinyRisk, RefusesWhatItCannotMeasure) {
  Session s = read({.policy = "streaming", .queries = RiskQueries::tail});
  const auto refused = [&](ErrorCode code, const std::string& part, const RiskOptions& options) {
    expect_error(code, part, [&] { measure_risk(s, options); });
  };
  refused(ErrorCode::usage, "evicts nothing", {.policy = "full"});
  refused(ErrorCode::usage, "there is none", {.budgets = {}});
  refused(ErrorCode::usage, "budget", {.budgets = {"junk"}});
  refused(ErrorCode::usage, "0 of 120 were observed", {.policy = "streaming"});
  refused(ErrorCode::usage, "need texts", {.queries = RiskQueries::file});
  refused(ErrorCode::usage, "empty", {.queries = RiskQueries::file, .texts = {{}}});
  refused(ErrorCode::usage, "eigenvalue", {.eigenvalues = 0});
  refused(ErrorCode::budget, "every head keeps at least one",
          {.policy = "streaming", .budgets = {"0.1%"}, .queries = RiskQueries::tail});
  Session empty(model, {.threads = 1, .n_ctx = 100});
  expect_error(ErrorCode::usage, "nothing to measure", [&] { measure_risk(empty); });
}

/// Runs a compression with and without a largest risk.
class TinyMaxRisk : public TinyRisk {
 protected:
  Receipt compressed(std::optional<double> most) {
    session.emplace(read({.policy = kPolicy}, most));
    return session->compress(kPolicy, "25%");
  }

  static constexpr const char* kPolicy = "snapkv+weights+global";
  std::optional<Session> session;
};

TEST_F(TinyMaxRisk, AHugeOneChangesNothing) {
  const Receipt plain = compressed({});
  const auto kept = kept_positions(*session);
  const Receipt bounded = compressed(1e9);
  EXPECT_EQ(kept_positions(*session), kept);
  EXPECT_EQ(bounded.notes, plain.notes);
  EXPECT_EQ(bounded.bytes_kept, plain.bytes_kept);
}

TEST_F(TinyMaxRisk, ATinyOneKeepsEveryEvictingHeadWhole) {
  const Receipt receipt = compressed(1e-9);
  EXPECT_EQ(receipt.entries_kept, kPrompt * kHeads);
  EXPECT_THAT(receipt.notes.back(), HasSubstr("layer 0 heads 0 1, layer 1 heads 0 1; 360 entries "
                                              "over the budget"));
}

TEST_F(TinyMaxRisk, OneBetweenKeepsTheHeadsAboveItWhole) {
  std::vector<double> errors;
  for (const HeadRisk& head : heads_of(measured({.policy = kPolicy}))) {
    errors.push_back(head.at[0].plan_error);
  }
  std::vector<double> sorted = errors;
  std::ranges::sort(sorted);
  ASSERT_LT(sorted[1], 0.99 * sorted[2]);
  compressed({});
  const auto plain = kept_positions(*session);
  const Receipt receipt = compressed((sorted[1] + sorted[2]) / 2);
  const auto kept = kept_positions(*session);
  int64_t added = 0;
  for (size_t row = 0; row < size_t(kHeads); ++row) {
    if (errors[row] > sorted[1]) {
      EXPECT_EQ(kept[row].size(), size_t(kPrompt)) << row;
      added += kPrompt - int64_t(plain[row].size());
    } else {
      EXPECT_EQ(kept[row], plain[row]) << row;
    }
  }
  EXPECT_EQ(receipt.entries_kept, kPrompt * kHeads / 4 + added);
  EXPECT_THAT(receipt.notes.back(), HasSubstr(std::to_string(added) + " entries over the budget"));
}

/// The prompt's queries are observed whatever the caller asks prefill for.
TEST_F(TinyMaxRisk, WorksForAPolicyThatReadsNothing) {
  Session s(model, {.threads = 1, .n_ctx = 500, .max_risk = 1e-9});
  s.prefill(prompt, {});
  EXPECT_EQ(s.compress("streaming", "25%").entries_kept, kPrompt * kHeads);
  s.decode(3);
  expect_error(ErrorCode::usage, "keeping risky heads whole reads the queries of the whole prompt",
               [&] { s.compress("streaming", "25%"); });
}

TEST_F(TinyMaxRisk, NotAboveZeroIsWrongUsage) {
  for (const double most : {0.0, -1.0, std::nan("")}) {
    expect_error(ErrorCode::usage, "above 0", [&] { Session(model, {.max_risk = most}); });
  }
}

}  // namespace
}  // namespace pith::test
