"""Small templates: one for every construct, and an endless supply of random ones."""

import random

VARIABLES = {
    "a": 5, "b": -3, "c": 2.5, "z": 0, "t": True, "f": False, "n": None, "s": "Hello World", "e": "", "w": "  padded \n",
    "u": "größe ΑΣ 日本 😀 ßx", "x": ["b", "a", "C", "a"], "y": [3, 1, 2], "m": [[1, 2], [3, 4]], "empty": [], "d": {"k": "v", "n": 1, "l": [1, 2]},
    "lines": "one\ntwo\n\nthree\r\nfour", "q": "it's \"quoted\" \\ \t\n",
    "people": [{"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "bob", "age": 25}, {"name": "Cy", "age": 31, "tags": []}],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}, {"v": 5, "c": []}],
}  # fmt: skip

SNIPPETS = [
    # White space and comments.
    "  {% if t %}\n  yes\n  {% endif %}\nend\n", "a\n  {%- if t -%}  \n b \n {%- endif -%} \n c", "a {# note #} b {#- note -#} c\n{# line #}\nd",
    "{%+ if t %} kept{% endif +%}\nx", "  {%+ if t +%}\n  y{% endif %}", "{% raw %}{{ a }} {% if %}{% endraw %}\n{{ a }}", "a  {%- raw -%}  x  {%- endraw -%}  b",
    "{{ a -}}   \n  {{- b }}", "\n\nx\n\n", "x\r\ny\rz\n", "{{ '}}' }}{{ \"{%\" }}", "{{ {'a': {'b': 1}}}}", "{#\n\n#}{{ a }}", "   {{ a }}   ", "\t{% set q = 1 %}\n{{ q }}",
    "{% for i in y %}\n  {{ i }}\n{% endfor %}\n", "{% if t %}\n\n\nx{% endif %}", "{%- set k = 1 -%} {{- k -}} .", "{% raw %}\n  a\n  {% endraw %}\nb",
    "{% raw %}", "{#", "{{ 1.2.3 }}", "{{ 'a'|int(base='x') }}",
    # Literals.
    "{{ 1 }} {{ 1.5 }} {{ 1e3 }} {{ 0x1f }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1.0e-7 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 0.1 + 0.2 }}",
    "{{ 'a\\n\\t\\\\\\'b\\x41\\u00e9\\U0001f600\\101\\q' }}", "{{ \"a\" 'b' \"c\" }}", "{{ true }} {{ True }} {{ none }} {{ None }} {{ false }}", "{{ 'é\\é' }}",
    "{{ [1, 'a', [2.0, none], {'k': true}, (1,), ()] }}", "{{ (1, 2) }} {{ 1, 2 }} {{ (1) }}", "{{ {} }} {{ {'a': 1, 2: 'b', none: 3, 1.5: 4} }}", "{{ q }} {{ [q] }}", "{{ [u, '\\x00\\x7f\\u200b\\ue000'] }}",
    "{{ [\"it's\", 'say \"x\"', 'both \\' and \"'] }}", "{{ -0.0 }} {{ 1e400 }} {{ -1e400 }} {{ 1e22 }} {{ 1.0 }} {{ 100000000000000000000.0 }}", "{{ [1, 2,] }} {{ {'a': 1,} }}",
    # Arithmetic.
    "{{ a + b }} {{ a - b }} {{ a * b }} {{ a / b }} {{ a // b }} {{ a % b }} {{ a ** 2 }} {{ 2 ** -1 }} {{ -a }} {{ +a }}", "{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 / 3 }}",
    "{{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 }} {{ 'a' * -1 }}|{{ (1,) * 2 }}", "{{ x + y }} {{ (1,) + (2,) }} {{ 'a' + 'b' }}", "{{ 'n=%d s=%s f=%.2f %% %5d|%-5d|%05d %x %r' % (a, s, c, a, a, a, 255, q) }}",
    "{{ '%s' % a }} {{ '%(k)s' % d }} {{ '%s %s' % (1, 2) }}", "{{ a ~ b ~ none ~ true ~ missing ~ [1] }}", "{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 1 + 2 * 3 - 4 / 2 }}", "{{ true + true }} {{ t * 3 }} {{ -t }}", "{{ -2 ** a }} {{ (-2) ** a }} {{ -2 ** 2 }} {{ (1 - 3) ** a }} {{ b ** 2 }} {{ -2.0 ** c }}",
    # Comparison and logic.
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ a == 5.0 }} {{ 1 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ x == ['b', 'a', 'C', 'a'] }}", "{{ 'a' in x }} {{ 'z' not in x }} {{ 'k' in d }} {{ 'ell' in s }} {{ 2 in y }} {{ '' in s }}",
    "{{ a and b }} {{ z or 'x' }} {{ not z }} {{ e or n or missing or 'last' }} {{ z and nothing.at.all }}", "{{ 'yes' if t else 'no' }} {{ 'yes' if f }} {{ 1 if f else 2 if f else 3 }}", "{{ not a == b }} {{ a != b }} {{ not not a }}",
    "{{ missing == other_missing }} {{ missing == none }} {{ missing == '' }} {{ d == {'n': 1, 'l': [1, 2], 'k': 'v'} }}", "{{ 1 in range(3) }} {{ 5 in range(0, 10, 2) }} {{ range(3) == range(0, 3) }}",
    # Subscripts.
    "{{ x[0] }} {{ x[-1] }} {{ x[9] }}| {{ d.k }} {{ d['k'] }} {{ d.nope }}| {{ m[1][0] }} {{ m.1.0 }} {{ s[0] }} {{ u[1] }} {{ u[-1] }}", "{{ x[1:] }} {{ x[:-1] }} {{ x[::2] }} {{ x[::-1] }} {{ s[2:5] }} {{ u[2:7] }} {{ u[::-1] }} {{ y[1:100] }} {{ (1, 2, 3)[1:] }}",
    "{{ s[::3] }} {{ s[-3:] }} {{ s[5:1:-1] }} {{ y[-100:2] }} {{ ''[1:] }}| {{ range(10)[2:5]|list }} {{ range(5)[1] }} {{ range(5).count(2) }} {{ range(2, 9, 2).index(4) }}", "{{ d.items() }} {{ d.keys() }} {{ d.values()|list }}", "{{ d.get('k') }} {{ d.get('q') }} {{ d.get('q', 7) }}", "{{ people[0].name }} {{ people[0]['tags'][0] }} {{ people[1].tags }}|",
    # Methods.
    "[{{ w.strip() }}] [{{ w.lstrip() }}] [{{ w.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'abcba'.rstrip('ab') }}]", "{{ s.upper() }} {{ s.lower() }} {{ u.upper() }} {{ u.lower() }} {{ u.title() }} {{ 'ǆ ǅ'.title() }} {{ u.capitalize() }} {{ u.swapcase() }}",
    "{{ s.split() }} {{ s.split('o') }} {{ s.split('o', 1) }} {{ s.rsplit('o', 1) }} {{ w.split() }} {{ ' a  b c '.split(none, 1) }} {{ 'a,b,c'.rsplit(',', maxsplit=1) }} {{ ''.split() }} {{ ''.split(',') }}",
    "{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a\\x0bb\\x85c\\u2028d'.splitlines() }}", "{{ s.startswith('He') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'H')) }} {{ s.startswith('lo', 3) }} {{ s.endswith('W', 0, 7) }}",
    "{{ s.replace('o', '0') }} {{ s.replace('o', '0', 1) }} {{ 'abc'.replace('', '-') }} {{ ''.replace('', 'x') }} {{ 'aaa'.replace('aa', 'b') }}", "{{ s.find('o') }} {{ s.find('zz') }} {{ s.rfind('o') }} {{ u.find('日') }} {{ s.count('l') }} {{ s.index('W') }} {{ s.find('o', 5) }} {{ 'aaa'.count('') }}",
    "{{ ', '.join(x) }} {{ '-'.join('abc') }} {{ ''.join([]) }}|", "{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ '½'.isnumeric() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ ''.isdigit() }} {{ 'Ab Cd'.istitle() }}",
    "{{ 'a'.center(5) }}|{{ 'ab'.center(5, '*') }}|{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3, '.') }}|{{ '42'.zfill(5) }}|{{ '-42'.zfill(5) }}", "{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('=') }}", "{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }}",
    "{{ '{} {}'.format(1, 'a') }} {{ '{0}{1}{0}'.format('x', 'y') }} {{ '{k}'.format(k=1) }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{:05d} {:+} {:,} {:.3f} {:x} {:e} {:%}'.format(42, 7, 1234567, 3.14159, 255, 12345.678, 0.25) }}",
    "{{ '{0.name} {1[k]} {2[0]!r}'.format(people[0], d, x) }} {{ '{{}}'.format() }} {{ '{:{}}'.format('a', 4) }}|", "{{ 'a\\tb'.expandtabs(4) }} {{ 'ß'.casefold() }} {{ 'abc'.isascii() }} {{ u.isascii() }}", "{{ x.count('a') }} {{ x.index('C') }} {{ (1, 2).index(2) }} {{ x.copy() }} {{ d.copy() }}", "{{ (5).bit_length() }} {{ c.is_integer() }} {{ a.real }}",
    # Filters.
    "{{ b|abs }} {{ -2.5|abs }} {{ (-2.5)|abs }}", "{{ [1, 2, 3, 4, 5]|batch(2)|list }} {{ [1, 2, 3]|batch(2, 'x')|list }} {{ [1, 2, 3, 4, 5]|slice(3)|list }} {{ [1, 2, 3, 4]|slice(3, 'f')|list }}", "{{ 'hELLO wORLD'|capitalize }} {{ 'foo bar-baz (qux) it\\'s'|title }} {{ u|title }}",
    "{{ missing|default('d') }} {{ missing|default }}| {{ e|default('d') }}| {{ e|default('d', true) }} {{ n|d('x') }} {{ z|d('x', boolean=true) }}", "{{ {'b': 2, 'A': 1, 'c': 0}|dictsort }} {{ {'b': 2, 'A': 1}|dictsort(true) }} {{ {'b': 2, 'A': 3}|dictsort(by='value') }} {{ {'b': 2, 'A': 3}|dictsort(reverse=true) }}",
    "{{ '<a href=\"x\">&\\'</a>'|e }} {{ '<'|escape|e }} {{ '<'|forceescape }} {{ ('<b>'|safe) + '<' }} {{ '<' + ('<'|e) }} {{ ['<'|e] }}", "{{ 'x' is escaped }} {{ 'x'|e is escaped }} {{ ('<%s>'|safe) % '<' }} {{ ('a'|safe).upper() is escaped }}",
    "{{ x|first }} {{ x|last }} {{ empty|first }}| {{ e|last }}| {{ s|first }} {{ d|first }} {{ range(3)|last }}", "{{ '3.7'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ ' 1_0 '|float }} {{ 'inf'|float }} {{ 'nan'|float }} {{ none|float }} {{ 3|float }}", "{{ '42'|int }} {{ '4.9'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '0x1F'|int(base=16) }} {{ '101'|int(0, 2) }} {{ 3.99|int }} {{ -3.99|int }} {{ none|int }} {{ true|int }} {{ ' 5 '|int }} {{ '1e3'|int }} {{ '-12'|int }}",
    "{{ '%s-%s'|format(1, 'b') }} {{ '%(a)s'|format(a=3) }}", "{% for g in people|groupby('age') %}{{ g.grouper }}:{% for p in g.list %}{{ p.name }},{% endfor %};{% endfor %}", "{% for k, v in people|groupby('tags.0', default='none') %}{{ k }}={{ v|length }} {% endfor %}", "{{ people|groupby('name')|list|length }} {{ [{'k': 'a'}, {'k': 'A'}]|groupby('k') }}",
    "{{ lines|indent }}", "{{ lines|indent(2, true) }}", "{{ lines|indent(width='> ', first=true, blank=true) }}", "{{ d|items|list }} {{ missing|items|list }}", "{{ x|join }} {{ x|join(', ') }} {{ people|join('; ', attribute='name') }} {{ y|join(0) }} {{ s|join('.') }}", "{{ x|length }} {{ u|length }} {{ d|count }} {{ missing|length }} {{ range(4)|length }}",
    "{{ s|list }} {{ d|list }} {{ range(3)|list }}", "{{ x|map('upper')|list }} {{ people|map(attribute='name')|join(',') }} {{ people|map(attribute='tags', default='?')|list }} {{ y|map('string')|map('int')|list }} {{ m|map('first')|list }} {{ x|map('replace', 'a', 'o')|list }}", "{{ y|max }} {{ y|min }} {{ x|max }} {{ x|min(case_sensitive=true) }} {{ people|max(attribute='age') }} {{ empty|max }}|",
    "{{ y|reject('odd')|list }} {{ [0, 1, none, 'a']|reject|list }} {{ people|rejectattr('tags')|map(attribute='name')|list }}", "{{ y|select('>', 1)|list }} {{ [0, 1, '', 'a']|select|list }} {{ x|select('equalto', 'a')|list }} {{ x|select('in', ['a', 'b'])|list }} {{ y|select('divisibleby', 2)|list }} {{ [1, 'a', none]|select('string')|list }}",
    "{{ people|selectattr('age', 'eq', 31)|map(attribute='name')|list }} {{ people|selectattr('tags', 'defined')|list|length }} {{ people|selectattr('tags')|list|length }} {{ people|rejectattr('age', 'lt', 30)|list|length }}", "{{ s|replace('o', '0') }} {{ s|replace('l', 'L', 2) }} {{ a|replace(5, 6) }}", "{{ x|reverse|list }} {{ s|reverse }} {{ (1, 2)|reverse|list }} {{ d|reverse|list }} {{ y|map('string')|reverse }}",
    "{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42|round }} {{ 1234.5|round(-2) }} {{ 2.1|round(method='ceil') }} {{ 2.9|round(0, 'floor') }} {{ 42.55|round(1, 'floor') }} {{ 15|round(-1) }} {{ 25|round(-1) }} {{ 1e300|round(3) }}", "{{ x|sort }} {{ x|sort(reverse=true) }} {{ x|sort(case_sensitive=true) }} {{ people|sort(attribute='age')|map(attribute='name')|list }} {{ people|sort(attribute='age,name', reverse=true)|map(attribute='name')|list }} {{ m|sort(attribute=1)|list }}",
    "{{ y|sum }} {{ people|sum(attribute='age') }} {{ m|sum(start=[]) }} {{ empty|sum }} {{ [1.5, 2]|sum }}", "[{{ w|trim }}] [{{ 'xax'|trim('x') }}] [{{ 5|trim }}]", "{{ s|truncate(5) }} {{ s|truncate(5, true) }} {{ s|truncate(8, leeway=0) }} {{ s|truncate(8, true, '!', 0) }} {{ s|truncate(4, end='') }}", "{{ x|unique|list }} {{ x|unique(true)|list }} {{ people|unique(attribute='age')|map(attribute='name')|list }} {{ ['a', 'A']|unique|list }}",
    "{{ u|upper }} {{ u|lower }} {{ 5|upper }} {{ none|lower }}", "{{ 'a b/c?d=é&'|urlencode }} {{ {'a b': 'c/d', 'e': 1}|urlencode }} {{ [('x', 'y z')]|urlencode }}", "{{ s|wordcount }} {{ u|wordcount }} {{ 'a-b_c d\\'e'|wordcount }}", "{{ a|string + 'x' }} {{ none|string }} {{ d|attr('k') }}| {{ s|attr('upper') is callable }} {{ 'ab'|center(6) }}| {{ 1000|filesizeformat }} {{ 1|filesizeformat }} {{ 123456789|filesizeformat }} {{ 2048|filesizeformat(true) }}",
    "{{ d|tojson }} {{ u|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ d|tojson(indent=2) }} {{ people|tojson(indent=1) }} {{ d|tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': [true, none, 1.0, 1e-7]}|tojson(sort_keys=true) }} {{ q|tojson }} {{ '<a>&\\'' | tojson }}", "{{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=2) }} {{ [[], {}]|tojson(indent='\\t') }} {{ (1, 2)|tojson }} {{ '\\x00\\x7f\\u2028'|tojson }} {{ 'nan'|float|tojson }}", "{% filter upper %}a{{ a }}b{% endfilter %} {% filter replace('a', 'b')|upper %}banana{% endfilter %}",
    # Tests.
    "{{ missing is defined }} {{ a is defined }} {{ d.k is defined }} {{ d.q is undefined }} {{ (missing.x is defined) if false else 1 }}", "{{ n is none }} {{ t is true }} {{ f is false }} {{ t is boolean }} {{ a is integer }} {{ t is integer }} {{ c is float }} {{ a is number }} {{ t is number }}", "{{ s is string }} {{ d is mapping }} {{ x is iterable }} {{ a is iterable }} {{ s is sequence }} {{ d is sequence }} {{ range(2) is sequence }} {{ missing is iterable }} {{ x|map('upper') is sequence }} {{ d.items() is sequence }}",
    "{{ a is odd }} {{ a is even }} {{ a is divisibleby 5 }} {{ a is divisibleby(2) }} {{ a is eq 5 }} {{ a is ne(5) }} {{ a is gt 3 }} {{ a is le 3 }} {{ a is equalto 5.0 }} {{ a is in y }} {{ 'a' is in(x) }} {{ a is not odd }} {{ a is not none and t }}", "{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'Abc' is lower }} {{ '12' is upper }} {{ n is sameas none }} {{ t is sameas true }} {{ 1 is sameas true }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ range is callable }} {{ a is callable }}", "{{ not a is odd }} {{ (a is odd) ~ '' }} {{ a is odd or f }} {{ [a is odd, b] }}",
    # Statements.
    "{% for i in y %}{{ loop.index }}/{{ loop.length }} {{ loop.index0 }} {{ loop.revindex }} {{ loop.revindex0 }} {{ loop.first }} {{ loop.last }} {{ loop.previtem }} {{ loop.nextitem }} {{ loop.depth }} {{ loop.depth0 }};{% endfor %}", "{% for i in empty %}x{% else %}none{% endfor %}{% for i in y %}x{% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for (i, j) in m %}{{ i }}{{ j }}{% endfor %}{% for i, (j, k) in [(1, (2, 3))] %}{{ i }}{{ j }}{{ k }}{% endfor %}",
    "{% for i in y if i > 1 %}{{ loop.index }}:{{ i }}/{{ loop.length }} {% endfor %}{% for i in y if i > 9 %}x{% else %}none{% endfor %}", "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in y %}{% continue %}{% else %}else{% endfor %}{% for i in y %}{% break %}{% else %}else{% endfor %}", "{% for n in tree recursive %}{{ n.v }}@{{ loop.depth }}[{{ loop(n.c) }}]{% endfor %}",
    "{% for i in y %}{{ loop.cycle('a', 'b') }}{% if loop.changed(i > 1) %}!{% endif %}{% endfor %}", "{% for i in y %}{% for j in x %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}", "{% for i in y|map('string') %}{{ loop.last }}{{ loop.nextitem }}{{ loop.length }}{% endfor %}", "{% for c in u %}[{{ c }}]{% endfor %}", "{% for x in x %}{{ x }}{% endfor %}{{ x }}", "{% for i in missing %}x{% else %}nothing{% endfor %}", "{% for i in 1, 2, 3 %}{{ i }}{% endfor %}",
    "{% if a > 9 %}1{% elif a > 4 %}2{% else %}3{% endif %}{% if f %}x{% endif %}{% if empty or n %}x{% elif not z %}y{% endif %}", "{% set q = 1 %}{% set k, l = 2, [3] %}{{ q }}{{ k }}{{ l }}{% set r %}block {{ q }}{% endset %}{{ r }}{% set r | upper | replace('B', 'X') %}bb{{ q }}{% endset %}{{ r }}", "{% set v = 1 %}{% for i in y %}{% set v = v + i %}{{ v }} {% endfor %}{{ v }}", "{% set v = 1 %}{% if t %}{% set v = 2 %}{% endif %}{{ v }}{% if f %}{% set w = 3 %}{% endif %}{{ w }}", "{% for i in y %}{{ v }}{% set v = i %}{{ v }} {% endfor %}{{ v }}",
    "{% set ns = namespace(v=0, l=[]) %}{% for i in y %}{% set ns.v = ns.v + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.v }} {{ ns.l }} {{ ns.nope }}| {{ ns }}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns['b'] }}{% set ns.a, k = 5, 6 %}{{ ns.a }}{{ k }}{% set ns.c %}x{% endset %}{{ ns.c }}", "{% macro m1(p, q=2, r=q) %}[{{ p }},{{ q }},{{ r }}]{% endmacro %}{{ m1(1) }}{{ m1(1, 3) }}{{ m1(q=5, p=6) }}{{ m1() }}{{ m1(1, r=0) }}", "{% macro m2() %}{{ varargs }} {{ kwargs }}{% endmacro %}{{ m2(1, 2, k=3) }}{{ m2() }}",
    "{% macro m3(p) %}<{{ caller(p) }}>{{ caller('z') }}{% endmacro %}{% call(v) m3(1) %}got {{ v }}{% endcall %}", "{% macro m4() %}{{ caller is defined }}{% endmacro %}{{ m4() }}{% call m4() %}{% endcall %}", "{% macro fact(n) %}{{ 1 if n < 2 else n * fact(n - 1)|int }}{% endmacro %}{{ fact(5) }}", "{% set g = 1 %}{% macro m5() %}{{ g }}{{ a }}{% endmacro %}{% set g = 2 %}{{ m5() }}", "{% macro m6() %}{{ late }}{% endmacro %}{% set late = 3 %}{{ m6() }}", "{% macro m7(x) %}{% set x = x + 1 %}{{ x }}{% endmacro %}{{ m7(1) }}{{ x }}", "{% macro m8(z) %}{{ z }}{% endmacro %}{{ m8 is callable }} {{ m8.name }} {{ m8.arguments }}",
    "{% with q = 1, r = 2 %}{{ q }}{{ r }}{% set q = 3 %}{{ q }}{% endwith %}{{ q }}|{% with %}{% set inner = 1 %}{% endwith %}{{ inner }}", "{% with a = 1 %}{% with b = a %}{{ b }}{% endwith %}{% endwith %}{{ a }}", "{% autoescape false %}{{ '<' }}{% endautoescape %}", "{% block content %}{{ a }}{% endblock %}{% block other %}x{% endblock other %}", "{% print a, b %}{% print 'x' %}", "{% generation %}a{{ a }}{% endgeneration %}", "{% set c2 = cycler('a', 'b') %}{{ c2.next() }}{{ c2.next() }}{{ c2.next() }}{{ c2.current }}{{ c2.reset() }}{{ c2.next() }}", "{% set j = joiner('; ') %}{% for i in y %}{{ j() }}{{ i }}{% endfor %}", "{{ range(3)|list }} {{ range(1, 4) }} {{ range(5, 0, -2)|list }} {{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }} {{ dict({'k': 1}, l=2) }}",
    "{% for i in range(3) %}{% if loop.first %}{% set found = i %}{% endif %}{{ found }}|{% endfor %}", "{% for i in y: %}{{ i }}{% endfor %}{% if t: %}x{% endif %}", "{% set x = x|sort %}{{ x }}{% set x = x[1:] %}{{ x }}", "{% for m in people %}{% if m.tags %}{% for t in m.tags %}{{ t }}{{ m.name }}{% endfor %}{% else %}-{% endif %}{% endfor %}", "{% macro outer() %}{% macro inner(v) %}({{ v }}){% endmacro %}{{ inner(1) }}{{ inner(a) }}{% endmacro %}{{ outer() }}", "{% for i in y %}{% macro show() %}{{ i }}{% endmacro %}{{ show() }}{% endfor %}",
    "{% macro each(l) %}{% for i in l %}{{ caller(i, loop.index) }}{% endfor %}{% endmacro %}{% call(v, k) each(x) %}{{ k }}{{ v }};{% endcall %}", "{{ 'a' if missing is defined and missing.x else 'b' }}{{ missing }}{{ [missing] }}{{ missing ~ 'x' }}", "{{ a.__class__ }}|{{ a.__class__ is defined }}|{{ x.append }}|{{ d.__init__ }}|{{ d.pop }}|", "{{ d['items'] is callable }} {{ d.items is callable }} {{ {'items': 1}['items'] }} {{ {'items': 1}.items is callable }}",
    "{{ (x|map('upper')|list)[0] }} {{ x|map('length')|sum }} {{ (y|sort)[0] }} {{ y|sort|first }} {{ y|select('odd')|map('string')|join('+') }}", "{% set it = y|map('string') %}{{ it|list }}{{ it|list }}{% if it %}truthy{% endif %}", "{{ people|map(attribute='name')|map('lower')|sort|join(' ') }}", "{{ {'a': 1}.update is defined }} {{ [1].append is defined }}", "{% if x is sequence and x is not string %}list{% endif %}{% if 'tags' in people[0] and people[0].tags is not none %}tags{% endif %}",
    "{{ s.split(' ')[-1].lstrip('W') }} {{ 'a</think>b'.split('</think>')[0].rstrip('\\n').split('<think>')[-1] }} {{ '[' ~ 'x'|upper ~ ']' }}", "{{ '%c%c' % ('a', 98) }} {{ '%+d % d' % (1, 2) }} {{ '%.3s|%10.2f|%-8s|' % ('abcdef', 3.14159, 'x') }} {{ '%e %g %G' % (12345.678, 0.00001, 1e20) }} {{ '%#x %#o' % (255, 8) }} {{ '%5.1f%%' % 12.34 }} {{ '%*d' % (5, 42) }}", "{% set ns = namespace() %}{% set ns.first = true %}{% for i in y %}{{ ns.first }}{% set ns.first = false %}{% endfor %}", "{{ missing|string|length }} {{ missing|list }} {{ missing|join(',') }}| {{ missing|first }}| {{ missing|upper }}| {{ missing|sort }} {{ missing|trim }}|{{ missing|map('upper')|list }}{{ missing|reverse|list }}{{ missing|wordcount }}",
    "{{ 'a' ~ (1 + 2) }} {{ 1 ~ 2 * 3 }}", "{{ 1 if true else 2 / 0 }} {{ true or 1 / 0 }} {{ false and 1 / 0 }}", "{{ x|first|upper }} {{ x|length + 1 }} {{ -(x|length) }} {{ not x|length == 4 }} {{ s|length > 3 and s|length < 20 }}", "{{ [1, 2, 3][1] }} {{ {'a': 1}['a'] }} {{ 'abc'[1] }} {{ (1, 2)[0] }} {{ 'abc'.upper()[0] }} {{ [[1, 2]][0][1] }}", "{{ strftime_now('%%') }}", "{% set loop_vars = [] %}{% for i in y %}{% set loop_vars = loop_vars + [i] %}{% endfor %}{{ loop_vars }}",
]  # fmt: skip

FAILING = [
    "{{ missing.x }}", "{{ missing[0] }}", "{{ missing() }}", "{{ missing + 1 }}", "{{ 'a' + missing }}", "{{ d.q.r }}", "{{ x[9].y }}", "{{ n.x.y }}", "{{ 'a' + 1 }}", "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ [] < 1 }}", "{{ a() }}", "{{ x.append(1) }}", "{{ d.update({}) }}", "{{ d.pop('k') }}", "{{ 1 in a }}", "{{ missing < 1 }}",
    "{{ a|nope }}", "{{ a is nope }}", "{% if f %}{% for i in y %}{{ i|nope }}{% endfor %}{% endif %}", "{{ raise_exception('no') }}", "{{ x|join(1, 2, 3, 4) }}", "{{ x|sort(attribute='name') + 1 }}", "{{ [1, 'a']|sort }}", "{{ {[]: 1} }}", "{{ {}|first|upper|abs }}", "{{ range(100001) }}", "{{ range(1, 2, 0) }}", "{{ range() }}", "{{ x|map('nope')|list }}", "{{ x|select('nope')|list }}", "{{ x|map|list }}", "{{ x|selectattr|list }}",
    "{% for i in a %}{% endfor %}", "{% for i, j in y %}{% endfor %}", "{% for i, j, k in m %}{% endfor %}", "{% set i, j = 1 %}", "{% set ns = 1 %}{% set ns.x = 2 %}", "{% set ns.x = 2 %}", "{% set ns = namespace() %}{% set ns._x = 2 %}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% for i in y %}{{ loop(y) }}{% endfor %}", "{% for loop in y %}{% endfor %}", "{% for i in y %}{% set loop = 1 %}{% endfor %}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% break %}", "{% continue %}", "{% for i in y %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% for i in y %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{% for i in y %}{% else %}{% break %}{% endfor %}", "{% if t %}", "{% endif %}", "{% for i in y %}", "{% for i y %}{% endfor %}", "{% nope %}", "{% do x.append(1) %}", "{{", "{{ a", "{{ a }", "{% if t %}{{ a }}", "{{ }}", "{% %}", "{{ a b }}", "{{ a. }}", "{{ a[ }}", "{{ (a }}", "{{ a) }}", "{{ [a }} ]", "{{ 'a }}", "{{ a ! b }}", "{{ $ }}", "{# open", "{% set %}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{% set [a] = 2 %}", "{% macro %}{% endmacro %}", "{% macro m(a, a) %}{% endmacro %}",
    "{% macro m(a=1, b) %}{% endmacro %}", "{% call a %}{% endcall %}", "{% filter %}{% endfilter %}", "{% if %}{% endif %}", "{% if t %}{% else %}{% else %}{% endif %}", "{% if t %}{% else %}{% elif t %}{% endif %}", "{{ f(*a, b) }}", "{{ dict(a=1, 2) }}", "{{ dict(a=1, a=2) }}", "{{ a is odd is even }}", "{{ x[::0] }}", "{{ x['a':] }}", "{{ n[1:] }}", "{{ d[1:] }}", "{{ 'abc'.index('z') }}", "{{ 'a'.split('') }}", "{{ ','.join(y) }}", "{{ '%d' % 'a' }}", "{{ '%s %s' % 1 }}", "{{ '%s' % (1, 2) }}", "{{ '%q' % 1 }}", "{{ '{} {}'.format(1) }}", "{{ '{x}'.format() }}", "{{ '{'.format() }}", "{{ '{:d}'.format('a') }}", "{{ 'a'.nope() }}", "{{ 'a'.upper(1) }}",
    "{{ missing|tojson }}", "{{ range(2)|tojson }}", "{{ {(1, 2): 3}|tojson }}", "{{ {1: 2, 'a': 3}|tojson(sort_keys=true) }}", "{{ x|map('upper')|length }}", "{{ x|map('upper')|last }}", "{{ a|length }}", "{{ a|first }}", "{{ a|list }}", "{{ n|join }}", "{{ a|items|list }}", "{{ x|dictsort }}", "{{ 'a'|round }}", "{{ 1.5|round(0, 'up') }}", "{{ n|abs }}", "{{ s|truncate(1) }}", "{{ a|indent }}", "{{ ['a']|sum }}", "{{ m|unique|list }}", "{{ a|attr('x').y }}", "{{ a|batch(2)|list }}", "{{ x|slice(0)|list }}", "{{ a is divisibleby 0 }}", "{{ n is odd }}", "{{ missing is odd }}", "{{ cycler() }}", "{{ joiner(1, 2) }}", "{{ dict(1) }}", "{{ dict([1]) }}", "{{ namespace(1) }}",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% from 'x' import y %}", "{% block a %}{% endblock %}{% block a %}{% endblock %}", "{{ '\\x4' }}", "{{ '\\u12' }}", "{{ 1 if }}", "{{ not }}", "{{ a and }}", "{{ a | }}", "{{ a is }}", "{{ {'a' 1} }}", "{{ {'a': } }}", "{{ , }}", "{{ a ~ }}", "{% with a %}{% endwith %}", "{% for x, in y %}{{ x }}{% endfor %}", "{% generation %}", "{% endgeneration %}", "{% autoescape %}{% endautoescape %}", "{{ -'a' }}", "{{ +'a' }}", "{{ -missing }}", "{{ missing|int }}", "{{ missing|float }}", "{{ missing|abs }}", "{{ missing|dictsort }}", "{{ missing|indent }}", "{{ 2 ** 'a' }}", "{{ 007 }}", "{{ loop.index }}", "{{ strftime_now() }}", "{{ strftime_now(1) }}",
]  # fmt: skip

VARIABLE_NAMES = [*VARIABLES, "missing"]
ATOMS = ["a", "b", "c", "z", "t", "f", "n", "s", "e", "w", "u", "x", "y", "m", "empty", "d", "lines", "people", "missing", "0", "1", "2", "-1", "3", "1.5", "'a'", "'lo'", "'k'", "' '", "''", "true", "false", "none", "[]", "[1, 2]", "['a', 'b']", "(1,)", "{}", "{'k': 1}", "range(3)"]
# Those that yield end in a list: a generator prints its address.
FILTERS = ["abs", "capitalize", "count", "default('q')", "default('q', true)", "e", "first", "float", "int", "join", "join(',')", "last", "length", "list", "lower", "max", "min", "reverse|list", "round", "round(1)", "sort", "string", "sum", "title", "tojson", "trim", "unique|list", "upper", "wordcount", "items|list", "map('string')|list", "map('upper')|list", "map(attribute='name')|list", "select|list", "reject|list", "select('string')|list", "reject('none')|list", "selectattr('k')|list", "replace('a', 'o')", "replace('', '-')", "truncate(5)", "indent", "indent(1, true)", "batch(2)|list", "slice(2)|list", "dictsort", "urlencode", "format(1)", "tojson(indent=1)", "sort(reverse=true)", "center(7)", "safe", "groupby('age')", "attr('upper') is callable"]  # fmt: skip
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "callable", "odd", "even", "lower", "upper", "true", "false", "eq(1)", "in [1, 'a']", "gt(1)", "divisibleby(2)", "sameas(none)", "escaped", "ne('a')"]
METHODS = ["upper()", "lower()", "strip()", "split()", "split('l')", "rsplit(' ', 1)", "splitlines()", "title()", "capitalize()", "replace('l', 'LL')", "startswith('H')", "endswith(('d', 'e'))", "find('l')", "rfind('o')", "count('a')", "items()|list", "keys()|list", "values()|list", "get('k')", "get('zz', 3)", "index('a')", "isdigit()", "join(['p', 'q'])", "lstrip('H')", "swapcase()", "format(1)", "partition('o')", "k", "name", "0", "append(1)", "zfill(4)", "center(9, '-')"]  # fmt: skip
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def random_expression(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(ATOMS)
    inner = lambda: random_expression(rng, depth - 1)  # noqa: E731
    kind = rng.randrange(12)
    if kind <= 1:
        return f"{inner()}|{rng.choice(FILTERS)}"
    if kind == 2:
        return f"({inner()}) is {rng.choice(['', 'not '])}{rng.choice(TESTS)}"
    if kind <= 4:
        return f"({inner()}).{rng.choice(METHODS)}"
    if kind <= 7:
        return f"({inner()} {rng.choice(BINARY)} {inner()})"
    if kind == 8:
        return f"({inner()})[{inner()}]"
    if kind == 9:
        part = lambda: rng.choice(["", "", "1", "-1", "2", "-2", "5", "n"])  # noqa: E731
        # Not of literals: jinja2 folds those, and a slice of a number is then undefined instead of an error.
        return f"{rng.choice(VARIABLE_NAMES)}[{part()}:{part()}{rng.choice(['', '', ':' + part()])}]"
    if kind == 10:
        return f"({inner()} if {inner()} else {inner()})"
    return rng.choice([f"[{inner()}, {inner()}]", f"({inner()}, {inner()})", f"{{'p': {inner()}}}", f"not {inner()}", f"-{inner()}"])


def random_body(rng: random.Random, depth: int) -> str:
    space = lambda: rng.choice(["", "", " ", "\n", "  \n", "\n  ", "x", " y\n"])  # noqa: E731
    tag = lambda text: "{%" + rng.choice(["", "", "", "-", "+"]) + f" {text} " + rng.choice(["", "", "", "-", "+"]) + "%}"  # noqa: E731
    out = space()
    for _ in range(rng.randrange(1, 4)):
        kind = rng.randrange(16 if depth else 2)
        body = lambda: random_body(rng, depth - 1)  # noqa: E731
        expression = lambda: random_expression(rng, rng.randrange(2))  # noqa: E731
        name = rng.choice(["a", "v", "x", "i"])
        if kind == 0:
            out += "{{" + rng.choice(["", "-"]) + f" {rng.choice(['v', 'i', 'loop.index', 'a', 'x', 'ns.v', 'ns.w', 'loop.last', 'loop.length', 'loop.revindex', 'loop.previtem', 'loop.nextitem', 'loop.depth', 'loop.changed(i)', 'loop.cycle(1, 2)', 'loop', 'k', 'varargs', 'kwargs', 'caller', 'joined()', 'cycled.next()'])}|string " + rng.choice(["", "-"]) + "}}"
            out = out.replace("loop.", "(loop or {}).") if rng.random() < 0.7 else out
        elif kind == 1:
            out += "{{ " + expression() + " }}"
        elif kind == 2:
            out += tag(f"if {expression()}") + body() + (tag("else") + body() if rng.random() < 0.5 else "") + tag("endif")
        elif kind <= 4:
            test = f" if {rng.choice(['i', 'loop', 'a', 'i is odd', 'x'])}" if rng.random() < 0.2 else ""
            out += tag(f"for {rng.choice(['i', 'v', 'x'])} in {rng.choice(['y', 'x', 'range(2)', 'empty', 'd', 's'])}{test}") + body()
            out += rng.choice(["", "", tag("break"), tag("continue")]) + (tag("else") + body() if rng.random() < 0.3 else "") + tag("endfor")
        elif kind == 5:
            out += tag(f"set {name} = {expression()}")
        elif kind == 6:
            out += tag(f"set {name}") + body() + tag("endset")
        elif kind == 7:
            out += tag(f"macro mm({rng.choice(['', 'v', 'v=a', 'i=1, v=i'])})") + body() + tag("endmacro") + "{{ mm(" + rng.choice(["", "1", "v=2", "a"]) + ") }}"
        elif kind == 9:
            out += tag(f"set ns.{rng.choice('vw')} = {expression()}")
        elif kind == 10:
            out += tag(f"call{rng.choice(['', '(i)', '(i, v=a)'])} cm({rng.choice(['', 'a', 'a, q=x', 'v, 2'])})") + body() + tag("endcall")
        elif kind == 11:
            out += tag("for i in tree recursive") + "{{ i.v }}" + rng.choice(["{{ loop(i.c) }}", "{% if i.c %}({{ loop(i.c) }}){% endif %}"]) + body() + tag("endfor")
        elif kind == 12:
            out += tag("for i, v in " + rng.choice(["d.items()", "d|dictsort(true, 'key')", "m", "[(1, 2)]"])) + body() + tag("endfor")
        elif kind == 13:
            out += tag(f"block b{rng.randrange(10**9)}") + body() + tag("endblock")
        elif kind == 14:
            out += tag(f"set {rng.choice(['a, v', 'i, ns.v', 'v, x'])} = {rng.choice(['1, 2', 'm', 'a, x', '(x, y)'])}")
        elif kind == 15:
            out += tag(f"macro {rng.choice(['mm', 'cm'])}({rng.choice(['p, q=1', 'p=v', ''])})") + body() + rng.choice(["", "{{ caller() }}", "{{ varargs }}{{ kwargs }}", "{{ p }}"]) + tag("endmacro") + rng.choice(["{{ cm(1) }}", "{{ cm(1, 2) }}", "{{ cm(1, 2, k=3) }}", "{{ mm(v=1) }}"])
        else:
            out += rng.choice([tag(f"with v = {name}") + body() + tag("endwith"), "{# c #}" + space(), tag("filter upper") + body() + tag("endfilter"), tag("generation") + body() + tag("endgeneration")])
        out += space()
    return out


PIECES = ["{{", "}}", "{%", "%}", "{#", "#}", "-", "-", "+", " ", " ", " ", "\n", "a", "x", "y", "if ", "else", "elif ", "endif", "for ", " in ", "endfor", "raw", "endraw", "set ", "=", "1", "2.5", "'q'", '"', "(", ")", "[", "]", ".", "|", "upper", "is ", "not ", "{", "}", ",", ":", "*", "~", "==", "text", "macro ", "endmacro", "generation", "endgeneration", "{{ a }}", "{% if t %}", "{% endif %}", "{% for i in y %}", "{{ i }}", "{% endfor %}", "{%- ", " -%}"]  # fmt: skip


def random_pieces(rng: random.Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(2, 14)))


TEXTS = ["'%d' % {0}", "'%5.2f|%-7s|%x' % ({0}, {1}, {2})", "'%r %s' % ({0}, {1})", "'%(k)s' % {0}", "'{{:>8}}|{{:<6}}|{{:^9}}'.format({0}, {1}, {2})", "'{{0!r:.5}}{{1}}'.format({0}, {1})", "'{{:,}} {{:e}} {{:05d}}'.format({0}, {1}, {2})", "'{{:+.2f}}{{:%}}'.format({0}, {1})", "'{{:#x}} {{:b}} {{:_}}'.format({0}, {1}, {2})", "({0}|string).center({1})", "({0}|string).replace({1}|string, {2}|string)", "({0}|string).split({1}|string)", "s[{1}:{2}]", "({0}|string).find({1}|string, {2})", "{0}|round({1})", "{0}|round(1, 'ceil')", "{0}|int({1})", "{0}|float({1})", "({0}|string)|truncate({1}, true, '', 0)", "{0}|indent({1}, true)", "{0}|join({1}|string)", "({0}|string).strip({1}|string)", "{0}|tojson(indent={1})", "{0}|batch({1})|list", "{0}|slice({1})|list", "range({0}, {1}, {2})|list", "({0}|string).zfill({1})", "({0}|string).rsplit({1}|string, {2})", "({0}|string).count({1}|string)", "{0} ** 2", "{0} // {1}", "{0} % {1}", "({0}|string).splitlines({1} == {2})", "({0}|string).expandtabs({1})", "({0}|string).partition({1}|string)", "{0}|sort(attribute={1})", "{0}|sum(start={1})", "{0}|wordcount", "({0}|string)|title", "{0}|filesizeformat"]  # fmt: skip
OPERANDS = ATOMS + ["'3.7'", "' 42 '", "'0x1F'", "'1e3'", "'nan'", "'-5'", "12345.678", "-0.5", "1e15", "255", "-7", "10", "0.1", "12345", "u", "s", "a", "c", "1", "2", "3", "0", "'%'", "'ß'", "'a b  c'"]


def random_text_expression(rng: random.Random) -> str:
    return rng.choice(TEXTS).format(*(rng.choice(OPERANDS) for _ in range(3)))


HEADER = "{% set ns = namespace(v=1) %}{% set joined = joiner('+') %}{% set cycled = cycler(1, 2) %}{% macro cm(p, q=1) %}[{{ caller(p) if caller else '' }}{{ caller(q) if caller and q else p }}]{% endmacro %}"


def random_snippet(rng: random.Random) -> str:
    if rng.random() < 0.2:
        return random_pieces(rng)
    if rng.random() < 0.3:
        return "{{ " + random_text_expression(rng) + " }}"
    if rng.random() < 0.6:
        return "{{ " + random_expression(rng, rng.randrange(1, 4)) + " }}"
    return HEADER + random_body(rng, rng.randrange(1, 4))
