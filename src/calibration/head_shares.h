#pragma once

#include <span>
#include <vector>

#include "pith/calibration.hpp"

namespace pith {

/// Kept shares at which calibrations hold head shares.
std::span<const double> calibrated_shares();

/// Head shares of one text at each of calibrated_shares(): `scores` decide in one contest over all
/// heads; context.protection stays out of it. Where nothing is kept beside the protected entries,
/// shares are equal.
std::vector<HeadShares> head_shares(const Scores& scores, const PolicyContext& context);

/// The mean over texts, each made by head_shares(); at least one.
std::vector<HeadShares> mean_shares(std::span<const std::vector<HeadShares>> texts);

}  // namespace pith
