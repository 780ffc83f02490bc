-- name: page_bounded
-- The rows of a page, {page}, in its order, {order}: as many as have {most} bytes together (NULL: all), and one at least. `page_rows` is the
-- number before the cut. A text that is cut off is never read: the size of a large one is known without it.
SELECT * FROM (
  SELECT page.*, count(*) OVER () AS page_rows, row_number() OVER place AS page_place, sum(bytes) OVER place AS page_bytes
  FROM (
{page}
  ) page
  WINDOW place AS (ORDER BY {order} ROWS UNBOUNDED PRECEDING)) placed
WHERE page_place = 1 OR {most}::bigint IS NULL OR page_bytes <= {most}::bigint
ORDER BY {order}
