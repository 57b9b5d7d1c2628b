"""What a model might write: all of markdown, attacks, and something for images."""

MARKDOWN = """# Paged caches

A *page* holds **16 tokens**; `free_pages` counts the rest. See [the paper](https://example.org/paged?a=1&b=2).

1. Hash each full page.
2. Look it up:
   - a hit adds a reference,
   - a miss takes a page from the ~~heap~~ free list.

- [x] counted
- [ ] swapped

> Quoted, and
> still quoted.

| pool | pages | free |
|:-----|------:|:----:|
| GPU | 4,096 | `1\\|024` |
| host | 512 | yes |

```python
def hash_page(parent: int, tokens: list[int]) -> int:
    \"\"\"Chained: equal hashes mean equal prefixes.\"\"\"
    return hash((parent, *tokens))  # no salt < & >
```

---

Two
lines, 2 * 3 * 4 = 24, snake_case_name and <b>no bold</b>."""

HOSTILE = """<img src=x onerror="window.hacked = 1"> <script>window.hacked = 2</script>

[click](javascript:window.hacked=3) [data](data:text/html,<script>window.hacked=4</script>) [vb](vbscript:x)
[tab](java\tscript:window.hacked=5) <javascript:window.hacked=6> ![pixel](http://203.0.113.9/pixel.png)

| <img src=x onerror=window.hacked=7> | b |
|---|---|
| <svg onload=window.hacked=8> | c |

```html" onmouseover="window.hacked=9
<iframe src="javascript:window.hacked=10"></iframe>
```
<style>body { display: none }</style> [safe](https://example.org/"onclick="window.hacked=11)"""

IMAGE = """Sort by start, then extend the last interval while the next one **overlaps** it:

```python
def merge(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:  # touches the last one
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
```

`merge([(1, 3), (2, 6), (8, 9)])` gives `[(1, 6), (8, 9)]`. The cost:

| step | time | memory |
|:-----|:----:|-------:|
| sorting | O(n log n) | O(n) |
| merging | O(n) | O(n) |

1. Equal ends are merged, since the test is `<=`.
2. An empty list gives an empty list."""
