#include "easydel/data/rows/row_filter.h"

#include "easydel/core/error.h"

namespace easydel::data {
namespace {

jinja::Template parse(const std::string& expression) {
  try {
    return jinja::Template("{% if (" + expression + ") %}1{% endif %}");
  } catch (const jinja::TemplateError& error) {
    fail<ConfigError>("[filter_query] must be an expression of the row's fields; got ", expression, ": ", error.what());
  }
}

}  // namespace

RowFilter::RowFilter(const std::string& expression) : expression_(expression), template_(parse(expression)) {}

bool RowFilter::operator()(const Row& row) const {
  try {
    return !template_.render(row.values).text.empty();
  } catch (const jinja::TemplateError& error) {
    fail<ConfigError>("[filter_query] ", expression_, " fails on ", row.place(), ", which has ",
                      list_fields(row.values), ": ", error.what());
  }
}

}  // namespace easydel::data
