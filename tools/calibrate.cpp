#include <iostream>

#include "calibration.h"
#include "commands.h"
#include "options.h"

namespace pith::tools {
namespace {

struct CalibrateSettings {
  ModelSettings model;
  int threads = 0;
  std::string json;
};

void calibrate_model(const CalibrateSettings& settings) {
  const Model model = load_model(settings.model);
  const std::filesystem::path path =
      settings.json.empty() ? calibration_path(model) : std::filesystem::path(settings.json);
  make_calibration(model, settings.threads, path);
  std::cout << path.string() << "\n";
}

}  // namespace

void add_calibrate(CLI::App& tool) {
  auto settings = std::make_shared<CalibrateSettings>();
  CLI::App& command = add_command(
      tool, "calibrate", "Measure head shares and sensitivities of a model, once for all prompts",
      [settings] { calibrate_model(*settings); });
  add_model_options(command, settings->model);
  command.add_option("-t,--threads", settings->threads, "threads; 0: physical cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command.add_option("--json", settings->json,
                     "write it here instead of where other commands look for it");
}

}  // namespace pith::tools
