// Forms with files, and recordings sent to a model that does not hear.
#include "easydel/serve/http/form_data.h"
#include "tests/serve/openai_fixture.h"

namespace easydel::serve::testing_support {
namespace {

using namespace std::literals;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

HttpRequest form(std::string body, const std::string& type = "multipart/form-data; boundary=b") {
  HttpRequest request;
  request.headers = {{"content-type", type}};
  request.body = std::move(body);
  return request;
}

TEST(FormData, HasFieldsAndFiles) {
  const HttpRequest request = form(
      "before\r\n--x y\r\nContent-Disposition: form-data; name=model\r\n\r\ntiny\r\n"
      "--x y\r\nContent-Type: audio/wav\r\ncontent-disposition: form-data; name=\"file\"; "
      "filename=\"a\\\"b;c.wav\"\r\n\r\n"
      "\r\n--x\0\r\n\r\n--x y\r\nContent-Disposition: form-data; name=\"\xc3\xa4[]\"\r\n\r\n\r\n--x y--\r\nbehind"s,
      "Multipart/Form-Data; charset=utf-8; boundary=\"x y\"");
  const std::vector<FormPart> parts = read_form_data(request);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].name, "model");
  EXPECT_FALSE(parts[0].filename);
  EXPECT_EQ(parts[0].value, "tiny");
  EXPECT_EQ(parts[1].filename, "a\"b;c.wav");
  EXPECT_EQ(parts[1].value, "\r\n--x\0\r\n"sv);
  EXPECT_EQ(parts[2].name, "\xc3\xa4[]");
  EXPECT_EQ(parts[2].value, "");
}

TEST(FormData, RefusesWhatIsNotAForm) {
  const std::string part = "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n";
  std::string many;
  for (int i = 0; i < 65; ++i) many += part;
  const std::vector<std::array<std::string, 3>> cases{
      {"{}", "application/json", "the body must be multipart/form-data; got \"application/json\"."},
      {part + "--b--", "multipart/form-data", "needs a boundary of 1 to 70 characters; got 0."},
      {part + "--b--", "multipart/form-data; boundary=" + std::string(71, 'b'), "got 71."},
      {"nothing", "multipart/form-data; boundary=b", "its boundary is not in the body."},
      {"--bc", "multipart/form-data; boundary=b", "must have a line break after each boundary."},
      {"--b\r\nContent-Disposition: form-data; name=a\r\n", "multipart/form-data; boundary=b", "no end of its headers"},
      {"--b\r\n\r\n1\r\n--b--", "multipart/form-data; boundary=b", "no Content-Disposition with a name."},
      {"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1", "multipart/form-data; boundary=b",
       "the form ends within its part \"a\"."},
      {many + "--b--", "multipart/form-data; boundary=b", "a form may have 64 parts; got more."}};
  for (const auto& [body, type, message] : cases) {
    const HttpRequest request = form(body, type);
    EXPECT_THAT([&] { read_form_data(request); }, ThrowsMessage<FormatError>(HasSubstr(message))) << body;
  }
}

// Every prefix of a form, and every form with one byte changed, is read or refused.
TEST(FormData, SurvivesAnyBytes) {
  const std::string body =
      "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\n1\r\n--b\r\nA: b\r\n\r\n\r\n--b--";
  for (std::size_t i = 0; i < body.size(); ++i) {
    for (const char byte : {'\0', '-', '"', '\r', '\n', ';', '=', '\\', 'x'}) {
      std::string changed = body;
      changed[i] = byte;
      for (const std::string& each : {changed, body.substr(0, i)}) {
        try {
          for (const FormPart& part : read_form_data(form(each))) EXPECT_FALSE(part.name.empty());
        } catch (const FormatError&) {
        }
      }
    }
  }
}

class AudioTest : public ServiceTest {};

TEST_F(AudioTest, AModelOfTextDoesNotHear) {
  EXPECT_THAT(post("/v1/audio/transcriptions", "{}").error_message(),
              HasSubstr("the body must be multipart/form-data"));
  const auto reply = start("POST", "/v1/audio/translations",
                           "--b\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n1\r\n--b--",
                           {{"content-type", "multipart/form-data; boundary=b"}});
  const Answer answer = read_answer(reply->wait());
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.error_message(), "the model `model` does not take recordings.");
  EXPECT_EQ(answer.error_param(), "model");
}

}  // namespace
}  // namespace easydel::serve::testing_support
