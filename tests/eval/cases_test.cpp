#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "eval/fidelity.h"

namespace pith {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> lines(const std::vector<FidelityCase>& cases) {
  std::vector<std::string> out;
  for (const FidelityCase& c : cases) {
    out.push_back(c.policy.substr(0, c.policy.find_first_of("(+")) + " " + c.budget);
  }
  return out;
}

TEST(MakeCases, AddsTheReferencePoliciesAndSaysSo) {
  const std::vector<std::string> policies{"snapkv"}, budgets{"10%", "64"};
  std::vector<std::string> notes;
  const auto cases = make_cases(policies, budgets, reference_policies(), notes);
  EXPECT_THAT(lines(cases), ElementsAre("full 100%", "random 10%", "random 64", "streaming 10%",
                                        "streaming 64", "snapkv 10%", "snapkv 64"));
  EXPECT_EQ(notes.size(), 3U);
}

TEST(MakeCases, WhatWasAskedForIsNotAddedTwice) {
  const std::vector<std::string> policies{"full", "random(seed=3)", "streaming", "streaming"};
  const std::vector<std::string> budgets{"10%"};
  std::vector<std::string> notes;
  const auto cases = make_cases(policies, budgets, reference_policies(), notes);
  EXPECT_THAT(lines(cases), ElementsAre("full 100%", "random 10%", "streaming 10%"));
  EXPECT_TRUE(notes.empty());
}

TEST(MakeCases, BadWordsAreErrorsBeforeAnyWork) {
  const std::vector<std::string> good{"snapkv"}, bad{"snapvk"}, share{"10%"}, much{"101%"};
  std::vector<std::string> notes;
  EXPECT_THROW(make_cases(bad, share, {}, notes), Error);
  EXPECT_THROW(make_cases(good, much, {}, notes), Error);
}

}  // namespace
}  // namespace pith
