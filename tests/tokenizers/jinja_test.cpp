#include <gmock/gmock.h>

#include <thread>

#include "easydel/core/error.h"
#include "easydel/text/jinja/template.h"
#include "easydel/tokenizers/chat_template.h"

namespace easydel::jinja {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string render(const std::string& source, const Json& variables = Json::object(), const Limits& limits = {}) {
  return Template(source, limits).render(variables).text;
}

void expect_error(const std::string& source, const std::string& message, const Limits& limits = {}) {
  EXPECT_THAT([&] { render(source, Json::object({{"x", 1}}), limits); },
              ThrowsMessage<TemplateError>("[Template] " + message))
      << source.substr(0, 200);
}

TEST(Template, ErrorsNameTheLine) {
  expect_error("a\n{{ b.c }}", "line 2: 'b' is undefined");
  expect_error("a\n\n{% if %}", "line 3: Expected an expression, got 'end of statement block'");
  expect_error("{{ 1 }}\n{% nope %}", "line 2: Encountered unknown tag 'nope'.");
  expect_error(
      "{% if x %}\n{{ x }}\n{% endfor %}",
      "line 3: Encountered unknown tag 'endfor'. Jinja was looking for the following tags: 'elif' or 'else' or "
      "'endif'. The innermost block that needs to be closed is 'if'.");
  expect_error("{#-#}\n\n{{ x|nope }}", "line 3: No filter named 'nope'.");
  expect_error("{% macro m() %}\n{{ raise_exception('stop: ' ~ x) }}\n{% endmacro %}\n\n{{ m() }}", "line 2: stop: 1");
  expect_error("{% set y = {'a': 1} %}\n{{ y.b.c }}", "line 2: 'dict object' has no attribute 'b'");
  expect_error("{{ [1].append(2) }}", "line 1: access to attribute 'append' of 'list' object is unsafe.");
  expect_error("\n{{ 'abc }}", "line 2: unexpected char \"'\" at 4");
  expect_error("{{ 9223372036854775808 }}",
               "line 1: the integer 9223372036854775808 does not fit in 64 bits (a limit of this engine)");
}

TEST(Template, ReasonIsTheMessageOfTheTemplate) {
  try {
    render("\n{{ raise_exception('Roles must alternate') }}");
    FAIL();
  } catch (const TemplateError& error) {
    EXPECT_EQ(error.reason(), "Roles must alternate");
    EXPECT_EQ(error.line(), 2);
  }
}

// Few steps over much text: the bytes are counted.
TEST(Template, CountsTheBytesThatAnOperationTouches) {
  const Limits limits{.steps = 200'000};
  const std::string begin =
      "{% set s = 'ab' * 50000 %}{% set t = 'ab' * 49999 ~ 'ac' %}{% set u = 'ab' * 50000 %}{% set d = {s: 1} %}"
      "{% set n = namespace(found=0) %}{% set parts = [s, t] %}{% for i in range(400) %}{% set x = ";
  for (const char* work : {"s in t",
                           "s == u",
                           "s < t",
                           "d[u]",
                           "d.get(u)",
                           "{u: 1}",
                           "u in d",
                           "u in [s]",
                           "[u] == [s]",
                           "(u, 1) in {(s, 1): 1}",
                           "s.find(t)",
                           "s.rfind('c' * 9)",
                           "s.count(t)",
                           "s.split(t)",
                           "s.rsplit(t)",
                           "s.partition(t)",
                           "s.rpartition(t)",
                           "s.replace(t, '')",
                           "s|replace(t, '')",
                           "s.startswith(u)",
                           "s.removeprefix(t)",
                           "s.strip('c')",
                           "'c'.strip(s)",
                           "'c'|trim(s)",
                           "s.upper()",
                           "s.isalpha()",
                           "s.isprintable()",
                           "s.isidentifier()",
                           "s.expandtabs()",
                           "s.zfill(1)",
                           "s.center(1)",
                           "s[::50000]",
                           "s[1:]",
                           "s ~ 1",
                           "s + 'x'",
                           "parts|join",
                           "','.join(parts)",
                           "'%.1s' % s",
                           "'{:.1}'.format(s)",
                           "s % ()",
                           "s.format()",
                           "s|int",
                           "s|float",
                           "s|tojson",
                           "s|string|length + [s]|string|length",
                           "s|wordcount",
                           "s|title",
                           "s|indent",
                           "s|urlencode",
                           "s is sameas u",
                           "s is lower",
                           "parts|sort",
                           "parts|unique|list",
                           "parts|max",
                           "[s]|map('upper')|list",
                           "[u]|select('in', [s])|list",
                           "{}[s]",
                           "n[s]",
                           "n|attr(s)"}) {
    EXPECT_THAT(
        [&] { render(begin + work + " %}{% endfor %}", Json::object(), limits); },
        ThrowsMessage<TemplateError>(HasSubstr("the template needs more than 200000 steps (a limit of this engine)")))
        << work;
  }
}

// Names in the source can be long too, and blocks can have many that are never set.
TEST(Template, CountsLongNamesAndManyNames) {
  const Limits limits{.steps = 200'000};
  const std::string name(100'000, 'a');
  std::string many;
  for (int i = 0; i < 5000; ++i) many += concat("{% set v", i, " = 1 %}");
  const std::string loop = "{% for i in range(2000) %}";
  for (const std::string& source :
       {"{% set n = namespace() %}" + loop + "{% set n." + name + " = i %}{% endfor %}",
        "{% set n = namespace(" + name + "=1) %}" + loop + "{% set x = n." + name + " %}{% endfor %}",
        loop + "{% set x = " + name + " %}{% endfor %}", loop + "{% if x %}" + many + "{% endif %}{% endfor %}"}) {
    EXPECT_THAT(
        [&] { render(source, Json::object(), limits); },
        ThrowsMessage<TemplateError>(HasSubstr("the template needs more than 200000 steps (a limit of this engine)")))
        << source.substr(0, 80);
  }
}

TEST(Template, EscapesAndTruncatesTheReason) {
  try {
    render("{{ raise_exception('\x1b[2J' ~ 'y' * 1000000) }}");
    FAIL();
  } catch (const TemplateError& error) {
    EXPECT_EQ(error.what(), "[Template] line 1: \\u001b[2J" + std::string(496, 'y') + "…");
    EXPECT_EQ(error.reason().size(), 1000004);
  }
}

TEST(Template, NoTemplateRunsForever) {
  const std::string nested = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}";
  expect_error(nested, "line 1: the template needs more than 20000000 steps (a limit of this engine)");
  expect_error(
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "line 1: the template nests more than 1000 evaluations (maximum recursion depth exceeded; a limit of this "
      "engine)");
  expect_error(
      "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "line 1: the template nests more than 1000 evaluations (maximum recursion depth exceeded; a limit of this "
      "engine)");
  expect_error("{{ 'x' * 1000000000 }}",
               "line 1: the values of the template need more than 268435456 bytes (a limit of this engine)");
  expect_error("{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
               "line 1: the values of the template need more than 268435456 bytes (a limit of this engine)");
  expect_error("{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
               "line 1: the output is longer than 1000000 bytes (a limit of this engine)", {.output = 1'000'000});
  expect_error("{{ range(100001) }}",
               "line 1: Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  expect_error(std::string(2 << 20, 'x'), "line 1: a template must have at most 1048576 bytes; got 2097152");
}

// Deep nesting without recursion in the template: values, generators, expressions, statements.
TEST(Template, NoTemplateOverflowsTheStack) {
  const std::string grow = "{% set ns = namespace(v=[]) %}{% for i in range(50000) %}{% set ns.v = ";
  const char* too_deep =
      "line 1: the template nests more than 1000 evaluations (maximum recursion depth exceeded; a limit of this "
      "engine)";
  expect_error(grow + "[ns.v] %}{% endfor %}{{ ns.v }}", too_deep);
  expect_error(grow + "[ns.v] %}{% endfor %}{{ ns.v|tojson }}", too_deep);
  expect_error(grow + "[ns.v] %}{% endfor %}{{ ns.v == [ns.v] }}", too_deep);
  expect_error(grow + "ns.v|map('string') %}{% endfor %}{{ ns.v|list }}", too_deep);
  expect_error("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", too_deep);
  EXPECT_EQ(render(grow + "[ns.v] %}{% endfor %}done"), "done");
  for (const char* part : {"(", "[", "-", "not ", "a[", "{1:", "a("}) {
    std::string source = "{{ ";
    for (int i = 0; i < 20000; ++i) source += part;
    EXPECT_THROW(render(source + "1"), TemplateError) << part;
  }
  for (const char* part : {" + 1", "|upper", ".a", "[0]", " if a else 1", "()", " is odd", " or 1"}) {
    std::string source = "{{ a";
    for (int i = 0; i < 20000; ++i) source += part;
    EXPECT_THROW(render(source + " }}"), TemplateError) << part;
  }
  for (const char* part : {"{% if 1 %}", "{% for i in a %}", "{% set a %}", "{% macro m() %}", "{% with %}"}) {
    std::string source;
    for (int i = 0; i < 20000; ++i) source += part;
    EXPECT_THROW(render(source), TemplateError) << part;
  }
}

TEST(Template, ManyBranchesAndNamesTerminate) {
  std::string source;
  for (int i = 0; i < 20000; ++i)
    source += "{% if a" + std::to_string(i) + " %}{% set b" + std::to_string(i) + " = 1 %}{% endif %}";
  EXPECT_THAT([&] { render(source); }, ThrowsMessage<TemplateError>(HasSubstr("too many branches and variables")));
}

TEST(Template, ManyArgumentsTerminate) {
  std::string names;
  for (int i = 0; i < 20000; ++i) names += "a" + std::to_string(i) + "=1,";
  EXPECT_EQ(render("{{ dict(" + names + ")|length }}"), "20000");
  names.pop_back();
  expect_error("{% macro m(" + names + ") %}{% endmacro %}{{ m(" + names + ") }}",
               "line 1: the template needs more than 20000000 steps (a limit of this engine)");
}

TEST(Template, RefusesWhatIsNotUtf8) {
  EXPECT_THAT([] { render("a\xff"); },
              ThrowsMessage<TemplateError>("[Template] line 1: the template is not UTF-8, at byte 1"));
  EXPECT_THAT([] { render("{{ v }}", Json::object({{"v", "a\xff"}})); },
              ThrowsMessage<TemplateError>(HasSubstr("a variable contains text that is not UTF-8, at byte 1")));
}

TEST(Template, RendersInSeveralThreadsAtOnce) {
  const Template shared("{% for i in range(50) %}{{ 'é' ~ i ~ name|upper }}{% endfor %}");
  const std::string expected = shared.render(Json::object({{"name", "x"}})).text;
  std::vector<std::jthread> threads;
  std::vector<int> equal(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) equal[t] += shared.render(Json::object({{"name", "x"}})).text == expected;
    });
  }
  threads.clear();
  EXPECT_THAT(equal, ElementsAre(100, 100, 100, 100));
}

TEST(Template, SpansOfGeneratedTextAreBytes) {
  const Rendering out =
      Template("é{% generation %}日{% endgeneration %}-{% generation %}{% endgeneration %}").render(Json::object());
  EXPECT_EQ(out.text, "é日-");
  ASSERT_EQ(out.generated.size(), 2);
  EXPECT_EQ(out.generated[0], (Rendering::Span{2, 5}));
  EXPECT_EQ(out.generated[1], (Rendering::Span{6, 6}));
}

TEST(Template, UsesTheGivenTime) {
  std::tm time{};
  time.tm_year = 124;
  time.tm_mday = 5;
  EXPECT_EQ(Template("{{ strftime_now('%-d %b %Y %z%f%%') }}").render(Json::object(), {.now = time}).text,
            "5 Jan 2024 000000%");
  EXPECT_NE(render("{{ strftime_now('%Y') }}"), "");
}

TEST(ChatTemplate, RendersAPrompt) {
  const ChatTemplate chat_template(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{{ '' if enable_thinking else '<no thoughts>' }}{% endif %}");
  ChatInput input;
  input.messages = Json::parse(R"([{"role": "user", "content": "Hello!"}])");
  input.add_generation_prompt = true;
  input.variables["bos_token"] = "<s>";
  input.variables["enable_thinking"] = false;
  EXPECT_EQ(chat_template.render(input).text, "<s><user>Hello!<assistant><no thoughts>");
}

void expect_refused(const ChatInput& input, const std::string& message) {
  EXPECT_THAT([&] { ChatTemplate("{% for m in messages %}{{ m.content|trim }}{% endfor %}").render(input); },
              ThrowsMessage<ConfigError>("[ChatTemplate] " + message));
}

TEST(ChatTemplate, RejectsInvalidInputs) {
  const Json messages = Json::array({Json::object({{"role", "user"}, {"content", "hi"}})});
  expect_refused({.messages = Json::array()}, "a conversation needs at least one message; got none.");
  expect_refused({.messages = Json("hi")}, "messages must be an array of objects; got a string.");
  expect_refused({.messages = Json::array({1})}, "messages must be objects; got an integer at index 0.");
  expect_refused({.messages = messages, .tools = Json::array({"f"})},
                 "tools must be objects; got a string at index 0.");
  expect_refused({.messages = messages, .add_generation_prompt = true, .continue_final_message = "content"},
                 "continue_final_message and add_generation_prompt are mutually exclusive: the first continues the "
                 "last message, the second begins a new one.");
  expect_refused({.messages = messages, .continue_final_message = "thoughts"},
                 "continue_final_message is set, but the final message has no \"thoughts\" to continue.");
  expect_refused({.messages = messages, .continue_final_message = "role"},
                 "continue_final_message is set to \"role\", which the template does not read.");
  expect_refused({.messages = messages, .variables = Json::object({{"tools", 1}})},
                 "\"tools\" is a reserved input and cannot be one of the variables.");
}

}  // namespace
}  // namespace easydel::jinja
