#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "policy/attention_probs.h"
#include "policy/policy.h"
#include "support/expect_error.h"
#include "support/one_head.h"

namespace pith::test {

namespace {

void expect_scores(const std::string& spec, const Synthetic& synthetic,
                   const std::vector<double>& expected) {
  const Scores scores = Policy::parse(spec).score(synthetic.context(4));
  ASSERT_EQ(scores.rows[0].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(double(scores.rows[0][i]), expected[i], 1e-5) << spec << " entry " << i;
  }
}

/// Attention of the last position: 1/8, 2/8, 4/8, 1/8.
Synthetic eighths(float own = 0) { return one_head({1, 2, 4, 1}, {4, 0, 2, -4}, own); }

// The four queries see sums of 1, 3, 7 and 8.

TEST(H2o, SumsOverTheQueriesThatSeeAnEntryAreDividedByTheirNumber) {
  expect_scores("h2o(recent=0)", eighths(),
                {(1 + 1.0 / 3 + 1.0 / 7 + 1.0 / 8) / 4, (2.0 / 3 + 2.0 / 7 + 2.0 / 8) / 3,
                 (4.0 / 7 + 4.0 / 8) / 2, 1.0 / 8});
}

TEST(H2o, TheNewestHalfOfTheBudgetComesFirst) {
  const auto scores = Policy::parse("h2o").score(eighths().context(4));
  EXPECT_LT(scores.rows[0][1], 1);
  EXPECT_EQ(scores.rows[0][2], std::numeric_limits<float>::infinity());
  EXPECT_EQ(scores.rows[0][3], std::numeric_limits<float>::infinity());
}

// Means over what a query sees are 1, 1/2, 1/3, 1/4. The first query sees one entry, which cannot
// be above the mean.
TEST(Scissorhands, CountsAttentionAboveTheMean) {
  expect_scores("scissorhands", eighths(), {0, 1, 2, 0});
}

TEST(Tova, TakesTheLastQuery) { expect_scores("tova", eighths(), {0.125, 0.25, 0.5, 0.125}); }

TEST(Tova, HeadsOfALayerShareTheirScores) {
  const auto synthetic = make_synthetic({.shape = small_shape(1), .lengths = {20}});
  const Scores scores = Policy::parse("tova").score(synthetic.context(20));
  double sum = 0;
  for (const float score : scores.rows[0]) sum += double(score);
  EXPECT_EQ(scores.rows[0], scores.rows[1]);
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(Tova, AnEntryThatOtherHeadsEvictedGetsNothingOfThem) {
  auto synthetic = make_synthetic({.shape = small_shape(1), .lengths = {3, 2}});
  synthetic.cache.rows[1].positions = {0, 2};
  const Scores scores = Policy::parse("tova").score(synthetic.context(5));
  EXPECT_EQ(scores.rows[0][0], scores.rows[1][0]);
  EXPECT_EQ(scores.rows[0][2], scores.rows[1][1]);
}

// o = 4/8 + 0 + 8/8 - 4/8 = 1; distances 3, 1, 1, 5.
TEST(Caote, IsHowFarTheOutputMovesWithoutTheEntry) {
  expect_scores("caote(window=1)", eighths(), {3.0 / 7, 1.0 / 3, 1.0, 5.0 / 7});
}

// The same distances, squared, times (alpha / (1 - alpha))^2 / 2.
TEST(Sensitivity, IsHalfTheSquaredMoveOfTheOutputTimesTheHeadsSensitivity) {
  Synthetic synthetic = eighths();
  expect_scores("sensitivity", synthetic, {9.0 / 98, 1.0 / 18, 1.0 / 2, 25.0 / 98});
  synthetic.calibration = random_calibration(synthetic.cache.model_shape);
  synthetic.calibration.sensitivity = {4};
  expect_scores("sensitivity", synthetic, {36.0 / 98, 4.0 / 18, 4.0 / 2, 100.0 / 98});
}

// The repeated token takes half of the attention and has no value: o = 1/2.
TEST(Sensitivity, ReadsTheRepeatPass) {
  EXPECT_TRUE(needs_of("sensitivity(source=repeat)").repeat);
  expect_scores("sensitivity(source=repeat)", eighths(8),
                {12.25 / 450, 0.25 / 98, 2.25 / 18, 20.25 / 450});
}

// Ranks by attention 0, 2, 3, 1 (1/16, 2/16, 4/16, 1/16); by the costs above 1, 0, 3, 2.
TEST(Deep, IsTheHigherOfTwoRanksOverTheCache) {
  EXPECT_TRUE(needs_of("deep").repeat);
  const Synthetic synthetic = eighths(8);
  PolicyContext context = synthetic.context(4);
  context.protection = {};
  EXPECT_EQ(Policy::parse("deep").score(context).rows[0], (std::vector<float>{1, 2, 3, 2}));
}

/// Term by term, in double.
double naive_sensitivity(const Synthetic& synthetic, int layer, int head_kv, int entry) {
  const ModelShape& shape = synthetic.cache.model_shape;
  const PolicyContext context = synthetic.context(60);
  const int positions = observed_count(context, 32), group = shape.group(), d = shape.head_dim;
  const auto probs = attention_probs(context, layer, head_kv, positions);
  const auto& values = synthetic.cache.rows[size_t(shape.row(layer, head_kv))].values;
  double cost = 0;
  for (int r = 0; r < probs.rows; ++r) {
    const int head = layer * shape.n_head + head_kv * group + r % group;
    const double a = double(probs.at(entry, r)),
                 s = double(synthetic.calibration.sensitivity[size_t(head)]);
    for (int j = 0; j < d; ++j) {
      double o = 0;
      for (int i = 0; i < probs.entries; ++i) {
        o += double(probs.at(i, r)) * double(values[size_t(i * d + j)]);
      }
      const double move = a / (1 - a) * (o - double(values[size_t(entry * d + j)]));
      cost += s / 2 * move * move / positions;
    }
  }
  return cost;
}

TEST(Sensitivity, AgreesWithTheSumTermByTerm) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {70}});
  const Scores scores = Policy::parse("sensitivity").score(synthetic.context(60));
  for (const int row : {0, 1, 2, 3}) {
    for (const int entry : {0, 31, 69}) {
      const double expected = naive_sensitivity(synthetic, row / 2, row % 2, entry);
      EXPECT_NEAR(double(scores.rows[size_t(row)][size_t(entry)]), expected,
                  1e-4 * expected + 1e-7);
    }
  }
}

TEST(Caote, AnEntryWithAllAttentionStaysFinite) {
  const Scores scores = Policy::parse("caote").score(one_head({1, 1e-30F}, {1, 2}).context(2));
  for (const float score : scores.rows[0]) EXPECT_TRUE(std::isfinite(score));
}

// The mean of the attention is 1/4; norms are 4, 0, 2, 4 and their mean 5/2.
TEST(Defensive, NeverFallsBelowTheMeanAndCountsTheValue) {
  expect_scores("defensive(window=1)", eighths(), {0.25 * 1.6, 0, 0.5 * 0.8, 0.25 * 1.6});
}

TEST(Kvzip, TheRepeatedTokensTakeTheirPartOfTheAttention) {
  expect_scores("kvzip", eighths(8), {1.0 / 16, 2.0 / 16, 4.0 / 16, 1.0 / 16});
}

TEST(Kvzip, TakesTheMaximumOverThePartsOfTheRepeatPass) {
  Synthetic synthetic = eighths(8);
  synthetic.repeat.push_back(synthetic.repeat[0]);
  synthetic.repeat[1].query = {{-1, 0}};  // weights 1, 1/2, 1/4, 1 and 1/8
  expect_scores("kvzip", synthetic, {8.0 / 23, 4.0 / 23, 4.0 / 16, 8.0 / 23});
}

/// W_O writes a value (x, 0) as (3x, 4x), of length 5 |x|.
Synthetic five_times(Synthetic synthetic) {
  synthetic.weights.w_o = {{3, 0, 4, 0}};
  return synthetic;
}

TEST(Kvgrad, IsTheRepeatPassAttentionTimesTheLengthOfWhatIsWritten) {
  expect_scores("kvgrad", five_times(eighths(8)), {20.0 / 16, 0, 40.0 / 16, 20.0 / 16});
}

TEST(Kvgrad, TakesTheMaximumOverThePartsOfTheRepeatPass) {
  Synthetic synthetic = five_times(eighths(8));
  synthetic.repeat.push_back(synthetic.repeat[0]);
  synthetic.repeat[1].query = {{-1, 0}};  // weights 1, 1/2, 1/4, 1 and 1/8
  expect_scores("kvgrad", synthetic, {160.0 / 23, 0, 40.0 / 16, 160.0 / 23});
}

// The second query head sees the weights 1, 1/2, 1/4, 1 and 1/8, and writes five times the value;
// the first writes nothing.
TEST(Kvgrad, EveryQueryHeadHasItsOwnProjection) {
  Synthetic synthetic = eighths(8);
  synthetic.cache.model_shape.n_head = synthetic.weights.model_shape.n_head = 2;
  synthetic.weights.w_o = {{0, 0, 3, 0, 0, 0, 4, 0}};
  synthetic.repeat[0].query = {{1, 0, -1, 0}};
  expect_scores("kvgrad", synthetic, {160.0 / 23, 0, 20.0 / 23, 160.0 / 23});
}

TEST(Kvzip, TakesTheMaximumOverTheQueriesOfThePrompt) {
  expect_scores("kvzip(source=prompt)", eighths(), {1, 2.0 / 3, 4.0 / 7, 1.0 / 8});
}

// Nothing turns: the four queries of the prompt ask as the last one does, and see every entry.
TEST(Kvzip, QueriesMovedAheadSeeAllEntries) {
  expect_scores("kvzip(source=future)", eighths(), {1.0 / 8, 2.0 / 8, 4.0 / 8, 1.0 / 8});
}

// A quarter turn: the weights are 1 each from where the queries point at the second number of a
// key.
TEST(Kvzip, QueriesMovedAheadAreTurned) {
  Synthetic synthetic = eighths();
  synthetic.weights.turn.frequency = {std::acos(0.0F) / 20};  // 4 + 16 positions from the first
  synthetic.prompt.positions = {0};
  synthetic.prompt.query = {{1, 0}};
  expect_scores("kvzip(source=future)", synthetic, {0.25, 0.25, 0.25, 0.25});
}

TEST(Sources, TheTokensAheadTakeTheirPartOfTheAttention) {
  expect_scores("kvzip(source=lookahead)", eighths(8), {1.0 / 16, 2.0 / 16, 4.0 / 16, 1.0 / 16});
}

// The four queries see sums of 1, 3, 7 and 8.
TEST(Sources, MeansAreOverAllQueries) {
  const std::vector<double> mean = {(1 + 1.0 / 3 + 1.0 / 7 + 1.0 / 8) / 4,
                                    (2.0 / 3 + 2.0 / 7 + 2.0 / 8) / 4, (4.0 / 7 + 4.0 / 8) / 4,
                                    1.0 / 32};
  expect_scores("snapkv(source=prompt,kernel=1)", eighths(), mean);
  expect_scores("tova(source=prompt)", eighths(), mean);
}

TEST(Sources, H2oAndScissorhandsReadAWindow) {
  expect_scores("h2o(source=tail,window=1,recent=0)", eighths(), {0.125, 0.25, 0.5, 0.125});
  expect_scores("scissorhands(source=tail,window=1)", eighths(), {0, 0, 1, 0});
}

// Half of the attention goes to a token of the pass with a value of 2: o = (4 + 8 - 4) / 16 + 1.
TEST(Caote, OutputsCountTheTokensOfThePass) {
  Synthetic synthetic = eighths(8);
  synthetic.repeat[0].own_values = {{2, 0}};
  expect_scores("caote(source=repeat)", synthetic,
                {2.5 / 15, 1.5 * 2 / 14, 0.5 * 4 / 12, 5.5 / 15});
}

// The attention is 1, 2/3, 4/7 and 1/8 at most; norms are 4, 0, 2, 4 and their mean 5/2.
TEST(Defensive, TakesTheMaximumOverTheQueriesOfThePrompt) {
  const double least = (1 + 2.0 / 3 + 4.0 / 7 + 1.0 / 8) / 4;
  expect_scores("defensive(source=prompt)", eighths(), {1.6, 0, least * 0.8, least * 1.6});
}

TEST(Sources, SayWhatTheyNeed) {
  EXPECT_EQ(needs_of("snapkv(source=lookahead,window=8)").lookahead, 8);
  EXPECT_EQ(needs_of("snapkv(source=lookahead,window=8)").tail, 1);
  EXPECT_EQ(needs_of("kvzip(source=tail,window=5)").tail, 5);
  EXPECT_FALSE(needs_of("kvzip(source=tail)").repeat);
  EXPECT_TRUE(needs_of("tova(source=future)").future);
  EXPECT_FALSE(needs_of("tova(source=future)").prompt);
  EXPECT_EQ(needs_of("tova(source=future)").tail, 0);
}

TEST(Sources, AShortLookaheadIsNoted) {
  const Scores scores = Policy::parse("caote(source=lookahead)").score(eighths().context(4));
  EXPECT_EQ(scores.notes,
            (std::vector<std::string>{"caote: window 32 shrank to the 1 observed positions"}));
}

// Without a rotation every query is (1, 0) and the covariance is 0: softmax(log w) over the entries
// after the one sink, times values.
TEST(Expected, IsTheAttentionOfTheMeanQueryTimesTheValue) {
  expect_scores("expected(eps=0,skip=0)", eighths(), {0, 0, 8.0 / 7, 4.0 / 7});
  expect_scores("expected(eps=0.5,skip=0)", eighths(), {2, 0, 15.0 / 7, 18.0 / 7});
}

// Queries (1, 0) and (3, 0): mean 2, variance 1, so that logits are 2 log w + (log w)^2 / 2.
TEST(Expected, CountsTheSpreadOfTheQueries) {
  Synthetic synthetic = one_head({9, 1, 2}, {1, 1, 1});
  synthetic.prompt.positions = {0, 1};
  synthetic.prompt.query = {{1, 0, 3, 0}};
  const double second = 4 * std::exp(std::log(2) * std::log(2) / 2);
  expect_scores("expected(eps=0,skip=0)", synthetic, {0, 1 / (1 + second), second / (1 + second)});
}

// Half a turn a position: before the rotation the queries at 0 and 1 are both (1, 0), and at the
// next position, 3, they point to (-1, 0).
TEST(Expected, RotatesTheMeanToThePositionsAhead) {
  Synthetic synthetic = one_head({9, 1, 2}, {1, 1, 1});
  synthetic.weights.turn.frequency = {2 * std::acos(0.0F)};
  synthetic.prompt.positions = {0, 1};
  synthetic.prompt.query = {{1, 0, -1, 0}};
  expect_scores("expected(eps=0,skip=0,future=1)", synthetic, {0, 2.0 / 3, 1.0 / 3});
}

TEST(PromptScores, NeedTheQueriesOfThePrompt) {
  Synthetic synthetic = eighths();
  synthetic.prompt = {};
  for (const std::string spec : {"h2o", "scissorhands", "expected", "compactor"}) {
    EXPECT_TRUE(needs_of(spec).prompt);
    expect_error(ErrorCode::usage, spec + " needs observed positions",
                 [&] { Policy::parse(spec).score(synthetic.context(4)); });
  }
}

TEST(Sources, NeedTheirPass) {
  Synthetic synthetic = eighths();
  synthetic.repeat.clear();
  synthetic.lookahead = {};
  for (const std::string name : {"kvzip", "kvgrad"}) {
    EXPECT_TRUE(needs_of(name).repeat);
    for (const std::string& spec : {name, name + "(source=lookahead)"}) {
      expect_error(ErrorCode::usage, name + " needs observed positions",
                   [&] { Policy::parse(spec).score(synthetic.context(4)); });
    }
  }
}

}  // namespace

}  // namespace pith::test
