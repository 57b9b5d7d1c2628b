# xgrammar from its sources, without its Python bindings: the target easydel_xgrammar, objects with hidden symbols, and
# easydel_xgrammar_headers for the file that uses it.
include_guard()

# Replaces `wrong` in the file's text, which the caller has in _text.
function(easydel_correct wrong right)
  string(FIND "${_text}" "${wrong}" _at)
  if(_at EQUAL -1)
    message(FATAL_ERROR "EASYDEL_XGRAMMAR holds another version of xgrammar than 0.2.8, for which "
                        "cmake/EasydelXgrammar.cmake was written: json_schema_converter.cc has no ${wrong}")
  endif()
  string(REPLACE "${wrong}" "${right}" _text "${_text}")
  set(_text "${_text}" PARENT_SCOPE)
endfunction()

# json_schema_converter.cc with corrections: in some strings it allows control characters, quotes and backslashes that
# make an answer something other than JSON.
function(easydel_correct_xgrammar source corrected)
  file(READ ${source}/cpp/json_schema_converter.cc _text)
  # Strings with minLength or maxLength.
  easydel_correct([[AddCharacterClass({{'"', '"'}, {'\\', '\\'}, {'\r', '\r'}, {'\n', '\n'}}, true)]]
                  [[AddCharacterClass({{0, 0x1f}, {'"', '"'}, {'\\', '\\'}}, true)]])
  # Patterns that its automata cannot express.
  easydel_correct([[  return AddSubGrammar(Grammar::FromEBNF(RegexToEBNF(regex)));]]
                  [[  XGRAMMAR_CHECK(!json_string) << "The pattern " << regex << " cannot be enforced in a JSON string";
  return AddSubGrammar(Grammar::FromEBNF(RegexToEBNF(regex)));]])
  # The formats email (quoted names), json-pointer and relative-json-pointer.
  easydel_correct([["^(" + dot_string + "|" + quoted_string + ")@"]] [["^(" + dot_string + ")@"]])
  easydel_correct([=[[\\x00-\\x2E]|[\\x30-\\x7D]]=] [=[[\\x20-\\x21\\x23-\\x2E]|[\\x30-\\x5B\\x5D-\\x7D]]=])
  file(CONFIGURE OUTPUT ${corrected} CONTENT "${_text}" @ONLY)  # written only when it differs
endfunction()

function(easydel_add_xgrammar source)
  set(_corrected ${PROJECT_BINARY_DIR}/generated/xgrammar/json_schema_converter.cc)
  easydel_correct_xgrammar(${source} ${_corrected})
  file(GLOB _files CONFIGURE_DEPENDS ${source}/cpp/*.cc ${source}/cpp/support/*.cc ${source}/cpp/converter_ext/*.cc)
  list(FILTER _files EXCLUDE REGEX "/cpp/json_schema_converter\\.cc$")

  add_library(easydel_xgrammar_headers INTERFACE)
  target_include_directories(easydel_xgrammar_headers SYSTEM INTERFACE
    ${source}/include ${source}/3rdparty/dlpack/include)

  add_library(easydel_xgrammar OBJECT ${_files} ${_corrected})
  target_link_libraries(easydel_xgrammar PRIVATE easydel_flags easydel_xgrammar_headers Threads::Threads)
  target_include_directories(easydel_xgrammar SYSTEM PRIVATE ${source}/cpp ${source}/3rdparty/picojson)
  # Its messages go to serve/grammar/xgrammar.cpp.
  target_compile_definitions(easydel_xgrammar PRIVATE
    XGRAMMAR_LOG_CUSTOMIZE=1 XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
  target_compile_options(easydel_xgrammar PRIVATE -w)
  set_target_properties(easydel_xgrammar PROPERTIES
    CXX_STANDARD 17 CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON EXPORT_COMPILE_COMMANDS OFF)
endfunction()
