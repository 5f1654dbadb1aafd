#include "policy/table.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "policy/knobs.h"
#include "policy/policy.h"

namespace pith {

namespace {

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

/// Text for a table cell, in which a bar would end the cell.
std::string cell(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.insert(at, 1, '\\');
  }
  return or_dash(text);
}

std::string knob_cell(const std::vector<Knob>& knobs) {
  std::string out;
  for (const Knob& knob : knobs) {
    out += (out.empty() ? "" : "<br>") + ("`" + knob.name + "=" + knob.value + "` ") + knob.help +
           " (" + allowed_values(knob) + ")";
  }
  return cell(out);
}

void print_knobs(std::ostream& out, const std::vector<Knob>& knobs) {
  for (const Knob& knob : knobs) {
    out << "    " << std::left << std::setw(16) << knob.name + "=" + knob.value << knob.help << " ("
        << allowed_values(knob) << ")\n";
  }
}

}  // namespace

std::string policies_markdown() {
  std::ostringstream out;
  out << "| preset | keeps | stands for |\n|---|---|---|\n";
  for (const PresetRow& row : preset_rows()) {
    out << "| `" << row.name << "` | " << cell(row.summary) << " | `" << row.spec << "` |\n";
  }
  out << "\n| policy | keeps | score | paper | differences | budget rule | phases | knobs |\n"
         "|---|---|---|---|---|---|---|---|\n";
  for (const ScoreRow& row : score_rows()) {
    out << "| `" << row.name << "` | " << cell(row.summary) << " | " << cell(row.formula) << " | "
        << cell(row.paper) << " | " << cell(row.differences) << " | " << cell(row.budget) << " | "
        << cell(phases_of(row)) << " | " << knob_cell(row.knobs) << " |\n";
  }
  out << "\n| budget rule | shares the budget | paper | knobs |\n|---|---|---|---|\n";
  for (const BudgetRow& row : budget_rows()) {
    out << "| `" << row.name << "` | " << cell(row.summary) << " | " << cell(row.paper) << " | "
        << knob_cell(row.knobs) << " |\n";
  }
  out << "\n| wrapper | does | formula | paper | differences | knobs "
         "|\n|---|---|---|---|---|---|\n";
  for (const WrapperRow& row : wrapper_rows()) {
    out << "| `" << row.name << "` | " << cell(row.summary) << " | " << cell(row.formula) << " | "
        << cell(row.paper) << " | " << cell(row.differences) << " | " << knob_cell(row.knobs)
        << " |\n";
  }
  return out.str();
}

std::string policies_text() {
  std::ostringstream out;
  out << "presets\n";
  for (const PresetRow& row : preset_rows()) {
    out << "  " << std::left << std::setw(18) << row.name << row.summary << "\n    stands for      "
        << row.spec << "\n";
  }
  out << "\npolicies\n";
  for (const ScoreRow& row : score_rows()) {
    out << "  " << std::left << std::setw(18) << row.name << row.summary << "\n    paper           "
        << or_dash(row.paper) << "\n    phases          " << phases_of(row)
        << "\n    budget rule     " << or_dash(row.budget) << "\n";
    print_knobs(out, row.knobs);
  }
  out << "\nbudget rules\n";
  for (const BudgetRow& row : budget_rows()) {
    out << "  " << std::left << std::setw(18) << row.name << row.summary << "\n";
    print_knobs(out, row.knobs);
  }
  out << "\nwrappers\n";
  for (const WrapperRow& row : wrapper_rows()) {
    out << "  " << std::left << std::setw(18) << row.name << row.summary << "\n";
    print_knobs(out, row.knobs);
  }
  return out.str();
}

}  // namespace pith
