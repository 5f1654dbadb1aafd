#include "calibration.h"

#include <algorithm>

#include "cache_folder.h"
#include "pith/calibration.hpp"
#include "progress.h"

namespace pith::tools {

namespace fs = std::filesystem;

namespace {

Calibration measure(const Model& model, int threads) {
  ProgressBar bar("calibrating the model, once");
  return calibrate(model, {.threads = threads}, bar.callback());
}

void keep(const Calibration& calibration, const fs::path& path) {
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  write_calibration(calibration, path.string());
}

/// Measured now; kept where that is possible.
Calibration first_calibration(const Model& model, const fs::path& path, SessionOptions& options) {
  Calibration made = measure(model, options.threads);
  try {
    keep(made, path);
  } catch (const Error& error) {
    options.notes.push_back(std::string("the calibration could not be kept: ") + error.what());
  }
  return made;
}

void find_or_make(const Model& model, bool no_calibrate, SessionOptions& options) {
  const fs::path path = calibration_path(model);
  try {
    if (fs::exists(path)) {
      options.calibration =
          std::make_shared<const Calibration>(read_calibration(path.string(), model));
    } else if (!no_calibrate) {
      options.calibration =
          std::make_shared<const Calibration>(first_calibration(model, path, options));
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) throw;
    options.notes.push_back(std::string("calibration not used: ") + error.what() +
                            "; `pith calibrate` makes it anew");
  }
}

}  // namespace

fs::path calibration_path(const Model& model) {
  return cache_folder() / "calibration" / (model_hash(model) + ".json");
}

void make_calibration(const Model& model, int threads, const fs::path& path) {
  keep(measure(model, threads), path);
}

void use_calibration(const Model& model, std::span<const std::string> specs, bool no_calibrate,
                     SessionOptions& options) {
  const bool needed = std::ranges::any_of(
      specs, [](const std::string& spec) { return needs_of(spec).calibration; });
  if (needed) find_or_make(model, no_calibrate, options);
}

}  // namespace pith::tools
