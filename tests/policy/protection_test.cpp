#include "policy/protection.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/synthetic.h"

namespace pith::test {

namespace {

void expect_fit(int64_t kept, Protection asked, int sinks, int window) {
  const Protection fit = fit_protection(kept * 7 + 3, 7, asked);
  EXPECT_EQ(fit.sinks, sinks) << kept;
  EXPECT_EQ(fit.window, window) << kept;
}

TEST(FitProtection, DefaultShrinksWithTheBudget) {
  expect_fit(1000, {-1, -1}, 4, 32);
  expect_fit(96, {-1, -1}, 4, 32);
  expect_fit(95, {-1, -1}, 4, 31);
  expect_fit(31, {-1, -1}, 3, 10);
  expect_fit(10, {-1, -1}, 1, 3);
  expect_fit(2, {-1, -1}, 1, 1);
}

TEST(FitProtection, ASingleEntryIsTheWindows) { expect_fit(1, {-1, -1}, 0, 1); }

TEST(FitProtection, AskedValuesReplaceTheDefault) {
  expect_fit(100, {0, 8}, 0, 8);
  expect_fit(100, {10, -1}, 10, 32);
  expect_fit(100, {-1, 99}, 1, 99);
  expect_fit(100, {90, -1}, 90, 10);
  expect_fit(100, {40, 60}, 40, 60);
  expect_fit(1, {0, 0}, 0, 0);
}

TEST(FitProtection, RefusesWhatDoesNotFitAndSaysWhatWould) {
  expect_error(ErrorCode::budget, "keep at least 101", [] { fit_protection(300, 3, {41, 60}); });
  expect_error(ErrorCode::budget, "keep at least 101", [] { fit_protection(300, 3, {100, -1}); });
  expect_error(ErrorCode::budget, "protect at most 100", [] { fit_protection(300, 3, {-1, 100}); });
  expect_error(ErrorCode::budget, "keep at least 4294967294",
               [] { fit_protection(300, 3, {INT32_MAX, INT32_MAX}); });
}

TEST(FitProtection, EveryHeadKeepsAnEntry) {
  expect_error(ErrorCode::budget, "ask for 90 or more", [] { fit_protection(89, 90); });
  expect_error(ErrorCode::budget, "ask for 90 or more", [] { fit_protection(0, 90, {0, 0}); });
}

TEST(EligibleEntries, LieBetweenSinksAndWindow) {
  const auto expect = [](int length, int first, int last) {
    const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {length}});
    PolicyContext context = synthetic.context(4);
    context.protection = {.sinks = 2, .window = 3};
    const auto eligible = eligible_entries(context, 3);
    EXPECT_EQ(eligible.first, first) << length;
    EXPECT_EQ(eligible.last, last) << length;
  };
  expect(10, 2, 7);
  expect(6, 2, 3);
  expect(5, 2, 2);
  expect(4, 2, 2);
  expect(1, 1, 1);
}

TEST(EligibleEntries, ComeAfterTheProtectedPromptByPosition) {
  auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {5}});
  synthetic.cache.rows[2].positions = {0, 4, 9, 10, 20};
  PolicyContext context = synthetic.context(20);
  const auto first = [&](int32_t prompt, int sinks) {
    context.protection = {.sinks = sinks, .window = 1, .prompt = prompt};
    return eligible_entries(context, 2).first;
  };
  EXPECT_EQ(first(0, 0), 0);
  EXPECT_EQ(first(9, 0), 2);
  EXPECT_EQ(first(10, 1), 3);
  EXPECT_EQ(first(4, 3), 3);
  EXPECT_EQ(first(100, 0), 5);
  EXPECT_EQ(eligible_entries(context, 2).count(), 0);
}

TEST(RowLimits, AreTheProtectedEntriesAndTheLength) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {1, 3, 20, 9}});
  PolicyContext context = synthetic.context(20);
  context.protection = {.sinks = 1, .window = 3};
  const RowLimits limits = row_limits(context);
  EXPECT_EQ(limits.least, (std::vector<int>{1, 3, 4, 4}));
  EXPECT_EQ(limits.most, (std::vector<int>{1, 3, 20, 9}));
  EXPECT_EQ(kept_entries(limits, 12), 12);
  EXPECT_EQ(kept_entries(limits, 1000), 33);
  expect_error(ErrorCode::budget, "12 are protected", [&] { kept_entries(limits, 11); });

  context.protection = {.sinks = 0, .window = 0};
  EXPECT_EQ(row_limits(context).least, (std::vector<int>{1, 1, 1, 1}));
}

}  // namespace

}  // namespace pith::test
