-- Executors knew better than the store of so many more runs. $1 how many.
UPDATE tickwise.epochs SET differed = differed + $1 WHERE epoch = (SELECT max(epoch) FROM tickwise.epochs)
