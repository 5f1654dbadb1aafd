#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "pith/pith.hpp"

namespace pith::tools {

/// Where the calibration of a model is kept: calibration/<hash>.json in the cache folder.
std::filesystem::path calibration_path(const Model& model);

/// Measures the model under a progress bar and writes `path`, whose folders are made.
void make_calibration(const Model& model, int threads, const std::filesystem::path& path);

/// Puts the model's calibration into `options` where one of `specs` uses one: the kept one, else,
/// unless `no_calibrate`, a new one, which is kept. Where there is none in the end, `options.notes`
/// say why; a file that cannot be used is left as it is.
void use_calibration(const Model& model, std::span<const std::string> specs, bool no_calibrate,
                     SessionOptions& options);

}  // namespace pith::tools
