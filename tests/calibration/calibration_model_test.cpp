#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "pith/calibration.hpp"
#include "support/packaged_model.h"
#include "support/temp_file.h"
#include "support/tool.h"

namespace pith::test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

/// A cache folder of its own for the tool.
class CalibrationCommand : public ::testing::Test {
 protected:
  CalibrationCommand() {
    fs::create_directories(file.parent_path());
    setenv("PITH_CACHE", cache.c_str(), 1);
  }
  ~CalibrationCommand() override {
    unsetenv("PITH_CACHE");
    fs::remove_all(cache);
  }

  /// The receipt's notes of a run with a policy that uses a calibration.
  std::vector<std::string> notes(const std::string& options) const {
    const TempFile text(long_text().substr(0, 2000), ".txt");
    const auto result = run_tool("run -t 1 -m '" + path + "' -f " + text.path() +
                                 " -p What? -n 1 --policy snapkv+shares --json " + options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out)["receipt"]["notes"];
  }

  const std::string path = packaged_model();
  const Model model = Model::load(path);
  const fs::path cache = fs::temp_directory_path() / ("pith-cache-" + std::to_string(getpid()));
  const fs::path file = cache / "calibration" / (model_hash(model) + ".json");
};

TEST_F(CalibrationCommand, WithoutOneHeadsAreAlikeAndTheReceiptSaysSo) {
  EXPECT_THAT(notes("--no-calibrate"), Contains(HasSubstr("no calibration")));
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(CalibrationCommand, ABrokenFileIsLeftAsItIsAndTheReceiptSaysSo) {
  write_file(file.string(), "{\"format\": 1");
  const auto said = notes("");
  EXPECT_THAT(said, Contains(HasSubstr("calibration not used")));
  EXPECT_THAT(said, Contains(HasSubstr("no calibration")));
  EXPECT_EQ(read_file(file.string()), "{\"format\": 1");
}

TEST_F(CalibrationCommand, WhatWasMeasuredIsUsed) {
  int calls = 0;
  const Calibration made = calibrate(model, {.threads = 1, .samples = 1}, [&](double) {
    ++calls;
    return true;
  });
  EXPECT_GT(calls, 30);
  ASSERT_EQ(made.shares.size(), 5U);
  for (const HeadShares& shares : made.shares) {
    EXPECT_EQ(shares.row.size(), size_t(model.shape().n_rows()));
    EXPECT_NEAR(std::accumulate(shares.row.begin(), shares.row.end(), 0.0), 1, 1e-4);
  }
  EXPECT_EQ(made.sensitivity.size(), size_t(model.shape().n_layer * model.shape().n_head));
  EXPECT_GT(std::ranges::min(made.sensitivity), 0);
  write_calibration(made, file.string());
  EXPECT_EQ(read_calibration(file.string(), model).shares[0].row, made.shares[0].row);
  EXPECT_THAT(notes(""), Contains("calibration " + model_hash(model)));
}

}  // namespace
}  // namespace pith::test
