// /v1/audio/transcriptions and /v1/audio/translations.
#include <charconv>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "easydel/serve/http/form_data.h"
#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/routes.h"
#include "easydel/serve/speech/speech_engine.h"

namespace easydel::serve {
namespace {

constexpr std::array<RefusedField, 7> kRefused{{
    {"include", "log-probabilities of transcriptions are not computed"},
    {"chunking_strategy", "recordings are split into windows at the timestamps that the model predicts"},
    {"known_speaker_names", "speaker diarization is not supported"},
    {"known_speaker_references", "speaker diarization is not supported"},
    {"hotwords", "use prompt instead"},
    {"max_completion_tokens", "answers are as long as generation_config.json allows"},
    {"seed", "sampling is always deterministic"},
}};

// The fields as a JSON object, as if they had come in one; a name that ends in [] is a list. Numbers and booleans have
// no other spelling in a form.
Json fields_of(const std::vector<FormPart>& parts) {
  Json object = Json::object();
  for (const FormPart& part : parts) {
    if (part.name == "file") continue;
    const std::string value(part.value);
    if (part.name.ends_with("[]")) {
      const std::string name = part.name.substr(0, part.name.size() - 2);
      if (!object.find(name)) object[name] = Json::array();
      object[name].push_back(value);
      continue;
    }
    require_field(!object.find(part.name), part.name, part.name, " is in the form twice.");
    double number = 0;
    const char* const end = value.data() + value.size();
    if (part.name == "temperature" && std::from_chars(value.data(), end, number).ptr == end && !value.empty()) {
      object[part.name] = number;
    } else if (part.name == "stream" && (value == "true" || value == "false")) {
      object[part.name] = value == "true";
    } else {
      object[part.name] = value;
    }
  }
  return object;
}

// 1.5: "00:00:01.500", with the separator of the format.
std::string time_text(double seconds, char separator) {
  const auto all = static_cast<int64_t>(std::llround(seconds * 1000));
  std::ostringstream text;
  text << std::setfill('0') << std::setw(2) << all / 3'600'000 << ':' << std::setw(2) << all / 60'000 % 60 << ':'
       << std::setw(2) << all / 1000 % 60 << separator << std::setw(3) << all % 1000;
  return text.str();
}

std::string subtitles(const SpeechOutput& said, bool is_srt) {
  std::string text = is_srt ? "" : "WEBVTT\n\n";
  const char separator = is_srt ? ',' : '.';
  for (std::size_t i = 0; i < said.segments.size(); ++i) {
    const SpeechSegment& segment = said.segments[i];
    if (is_srt) text += concat(i + 1, "\n");
    text += concat(time_text(segment.start, separator), " --> ", time_text(segment.end, separator), "\n", segment.text,
                   "\n\n");
  }
  return text;
}

struct Granularities {
  bool segments = true, words = false;
};

Json verbose(const SpeechOutput& said, bool translates, const Granularities& wanted) {
  Json segments = Json::array();
  for (std::size_t i = 0; i < said.segments.size(); ++i) {
    const SpeechSegment& segment = said.segments[i];
    segments.push_back(Json::object({{"id", i},
                                     {"start", segment.start},
                                     {"end", segment.end},
                                     {"text", segment.text},
                                     {"tokens", Json(segment.tokens)},
                                     {"temperature", said.temperature}}));
  }
  Json body = Json::object({{"task", translates ? "translate" : "transcribe"},
                            {"language", translates ? "en" : said.language},
                            {"duration", said.duration},
                            {"text", said.text}});
  if (wanted.segments) body["segments"] = std::move(segments);
  if (!wanted.words) return body;
  body["words"] = Json::array();
  for (const SpeechWord& word : said.words)
    body["words"].push_back(Json::object({{"word", word.text}, {"start", word.start}, {"end", word.end}}));
  return body;
}

HttpResponse plain_response(std::string text, const char* type = "text/plain; charset=utf-8") {
  return {.status = 200, .content_type = type, .headers = {}, .body = std::move(text)};
}

HttpResponse answer_in(const std::string& format, const SpeechOutput& said, bool translates,
                       const Granularities& wanted) {
  if (format == "text") return plain_response(said.text + "\n");
  if (format == "srt") return plain_response(subtitles(said, true));
  if (format == "vtt") return plain_response(subtitles(said, false), "text/vtt; charset=utf-8");
  Json body = format == "json" ? Json::object({{"text", said.text}}) : verbose(said, translates, wanted);
  body["usage"] = Json::object({{"type", "duration"}, {"seconds", static_cast<int64_t>(std::ceil(said.duration))}});
  return json_response(body);
}

Granularities read_granularities(Fields& fields, const std::string& format) {
  const std::vector<std::string> given = fields.strings("timestamp_granularities");
  Granularities wanted{.segments = given.empty()};
  for (const std::string& each : given) {
    require_field(each == "segment" || each == "word", "timestamp_granularities",
                  "timestamp_granularities must be segment or word; got \"", each, "\".");
    (each == "word" ? wanted.words : wanted.segments) = true;
  }
  require_field(given.empty() || format == "verbose_json", "timestamp_granularities",
                "timestamp_granularities needs response_format verbose_json; got \"", format, "\".");
  return wanted;
}

// What comes after the time is over is dropped; a recording whose turn has not come is not heard.
void limit_time(const ApiCall& call) {
  const auto timeout = call.service->options.request_timeout;
  if (timeout.count() == 0) return;
  call.service->workers.post_at(call.arrived + timeout, [service = call.service.get(), reply = call.reply] {
    if (!reply.is_open()) return;
    service->metrics.http(504);
    reply.send(error_response(ApiError(504, "the answer took longer than the server allows.", "", "timeout")));
  });
}

void answer_speech(ApiCall& call, bool translates) {
  const std::vector<FormPart> parts = read_form_data(call.request);
  const Json object = fields_of(parts);
  Fields fields(object);
  const ModelChoice model = choose_model(*call.service, fields);
  auto* const engine = dynamic_cast<SpeechEngine*>(call.service->engine.get());
  require_field(engine != nullptr, "model", "the model `", model.name, "` does not take recordings.");
  SpeechRequest request;
  request.translate = translates;
  if (!translates) {
    request.language = fields.string("language");
    if (request.language && request.language->empty()) request.language.reset();
  }
  request.prompt = fields.string("prompt").value_or("");
  const std::string format = fields.string("response_format").value_or("json");
  require_field(format == "json" || format == "text" || format == "srt" || format == "vtt" || format == "verbose_json",
                "response_format", "response_format must be json, text, srt, vtt or verbose_json; got \"", format,
                "\".");
  request.timestamps = format != "json" && format != "text";
  request.temperature = fields.number("temperature", 0, 1).value_or(0);
  const Granularities wanted = translates ? Granularities() : read_granularities(fields, format);
  request.word_timestamps = wanted.words;
  require_field(!fields.boolean("stream", false), "stream",
                "stream is not supported: a transcription is sent when it is complete.");
  fields.refuse_rest(kRefused);
  const FormPart* file = nullptr;
  for (const FormPart& part : parts) {
    if (part.name != "file") continue;
    require_field(file == nullptr, "file", "file is in the form twice.");
    file = &part;
  }
  require_field(file != nullptr, "file", "file is required.");
  request.audio = file->value;
  request.name = file->filename.value_or("file");
  request.is_wanted = [reply = call.reply] { return reply.is_open(); };
  limit_time(call);
  engine->transcribe(std::move(request), [service = call.service, reply = call.reply, format, translates,
                                          wanted](const SpeechOutput& said) {
    HttpResponse response = said.error ? error_response(said.error, service->options.retry_after)
                                       : answer_in(format, said, translates, wanted);
    if (said.error) service->metrics.http(response.status);
    reply.send(std::move(response));
  });
}

}  // namespace

void add_speech_routes(Service& service) {
  service.add({.method = "POST", .path = "/v1/audio/transcriptions", .handler = [](ApiCall& call) {
                 answer_speech(call, /*translates=*/false);
               }});
  service.add({.method = "POST", .path = "/v1/audio/translations", .handler = [](ApiCall& call) {
                 answer_speech(call, /*translates=*/true);
               }});
}

}  // namespace easydel::serve
