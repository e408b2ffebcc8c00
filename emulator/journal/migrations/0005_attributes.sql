-- Attributes, by which people find an instance: what its entries add up to, beside what listings show.

ALTER TABLE instance ADD COLUMN attributes TEXT; -- {"name": "value", ...}; NULL: none

-- Of each name the last change counts; one to null has removed it.
UPDATE instance
SET attributes = (
    SELECT json_group_object(name, value)
    FROM (
        SELECT change.key AS name, change.value AS value, max(seq)
        FROM entry CROSS JOIN json_each(entry.body, '$.changes') AS change
        WHERE entry.number = instance.number AND event = 109
        GROUP BY change.key
    )
    WHERE value IS NOT NULL
    HAVING count(*) > 0
)
WHERE number IN (SELECT number FROM entry WHERE event = 109);
