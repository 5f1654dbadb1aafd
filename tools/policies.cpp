#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "eval/receipt_json.h"
#include "options.h"
#include "policy/knobs.h"
#include "policy/policy.h"
#include "policy/table.h"

namespace pith::tools {
namespace {

using Json = nlohmann::ordered_json;

Json knobs_json(const std::vector<Knob>& knobs) {
  Json out = Json::array();
  for (const Knob& knob : knobs) {
    out.push_back({{"name", knob.name},
                   {"default", knob.value},
                   {"allowed", allowed_values(knob)},
                   {"help", knob.help}});
  }
  return out;
}

Json policies_json() {
  Json policies = Json::array();
  for (const ScoreRow& row : score_rows()) {
    policies.push_back({{"name", row.name},
                        {"summary", row.summary},
                        {"paper", row.paper},
                        {"formula", row.formula},
                        {"differences", row.differences},
                        {"budget_rule", row.budget},
                        {"phases", phases_of(row)},
                        {"knobs", knobs_json(row.knobs)}});
  }
  Json rules = Json::array();
  for (const BudgetRow& row : budget_rows()) {
    rules.push_back({{"name", row.name},
                     {"summary", row.summary},
                     {"paper", row.paper},
                     {"knobs", knobs_json(row.knobs)}});
  }
  Json wrappers = Json::array();
  for (const WrapperRow& row : wrapper_rows()) {
    wrappers.push_back({{"name", row.name},
                        {"summary", row.summary},
                        {"paper", row.paper},
                        {"formula", row.formula},
                        {"differences", row.differences},
                        {"knobs", knobs_json(row.knobs)}});
  }
  Json presets = Json::array();
  for (const PresetRow& row : preset_rows()) {
    presets.push_back({{"name", row.name}, {"summary", row.summary}, {"spec", row.spec}});
  }
  return {{"presets", presets},
          {"policies", policies},
          {"budget_rules", rules},
          {"wrappers", wrappers}};
}

struct PoliciesSettings {
  bool json = false, markdown = false;
};

void print_policies(const PoliciesSettings& settings) {
  if (settings.json) {
    std::cout << json_text(policies_json());
  } else {
    std::cout << (settings.markdown ? policies_markdown() : policies_text());
  }
}

}  // namespace

void add_policies(CLI::App& tool) {
  auto settings = std::make_shared<PoliciesSettings>();
  CLI::App& command = add_command(tool, "policies", "List the policies and their knobs",
                                  [settings] { print_policies(*settings); });
  auto* json = command.add_flag("--json", settings->json, "as JSON");
  command.add_flag("--markdown", settings->markdown, "as a Markdown table")->excludes(json);
}

}  // namespace pith::tools
