#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "eval/output_file.h"
#include "eval/receipt_json.h"
#include "pith/error.hpp"

namespace pith::tools {

/// The JSON file and the page that a measurement is written to, where they were asked for.
class ReportFiles {
 public:
  /// Empty paths: none. Throws Error(io) where one cannot be created and Error(usage) where both
  /// are the same.
  ReportFiles(const std::string& json, const std::string& html) {
    if (!json.empty() && json == html) {
      throw Error(ErrorCode::usage, "--json and --html name the same file");
    }
    if (!json.empty()) json_.emplace(json);
    if (!html.empty()) html_.emplace(html);
  }

  /// Writes what to_json() and to_html() make of a report.
  template <class Report>
  void write(const Report& report) {
    if (json_) json_->commit(json_text(to_json(report)));
    if (html_) html_->commit(to_html(report));
  }

 private:
  std::optional<OutputFile> json_, html_;
};

}  // namespace pith::tools
