// The parts of report.html that are the same for every run.
#pragma once

#include <string_view>

namespace easydel {

extern const std::string_view kReportPage;  // {{name}} stands for what report.cpp fills in
extern const std::string_view kReportStyle;
extern const std::string_view kLiveScript;    // asks for data again and again
extern const std::string_view kReportScript;  // draws <script id="data"> into <main id="charts">

}  // namespace easydel
